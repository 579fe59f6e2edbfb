"""The engine that computes here: torch for the arithmetic, peft for adapters, Silva's own losses.

    samples ─▶ micro-batches ─▶ log-probabilities of what carries loss: under the policy, and where the algorithm asks
               under the reference (the policy as it began) and the teacher ─▶ collate ─▶ algorithm.loss ─▶ backward

With several processes each computes its share of the samples and all make the same update of the same weights; what is
written is written by one of them (`silva.train.scale`).

The reference of a new adapter is the model without it; else a copy of the trained weights as they began, put in place
for the moment. Everything random is drawn from the seed, and the state holds all of it: a run that was stopped goes on
with the very numbers it would have had.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from silva.errors import Exit, SilvaError, UsageError
from silva.train.algorithms.batch import collate
from silva.train.algorithms.loss import Loss
from silva.train.algorithms.totals import Totals
from silva.train.config import OptimiserConfig, PolicyConfig, TeacherConfig
from silva.train.engines import adapters
from silva.train.engines.device import device_of
from silva.train.engines.engine import Drawn, StepResult, Update
from silva.train.engines.group import ALONE, Group
from silva.train.engines.microbatches import MicroBatch, micro_batches
from silva.train.engines.optimiser import TENSORS, Optimiser
from silva.train.engines.readable import check_known, check_readable, check_taught
from silva.train.engines.sampler import Sampler
from silva.train.engines.sharding import shard, wholes
from silva.train.engines.share import share, together
from silva.train.engines.target_logprobs import TargetLogprobs
from silva.train.engines.teacher import Teacher
from silva.train.engines.tensor_file import write_tensors
from silva.train.engines.weights import (
    TOKENIZER,
    computed_in,
    load_model,
    policy_folder,
    random_model,
    tokenizer_digest,
    weights_digest,
)
from silva.train.sample import Floats, Sample, SampleError

if TYPE_CHECKING:
    from silva.train.algorithms import Algorithm

STATE = "engine.json"
_HEAD = "lm_head.weight"
_GPU_RANDOM = "random_gpu"


class LocalEngine:
    """Weights of the llama family, trained in this process or, with a group, in several alike.

    Args:
        policy: which weights, and what of them is trained.
        optimiser: AdamW's parameters.
        teacher: who teaches, for the algorithms that ask for one.
        micro_tokens: bounds what is computed at once; changes no result but rounding.
        temperature: samples were drawn at.
        seed: of everything random.
        group: the processes that train together.
        sharded: each of them holds a part of the weights; with `method: full`.

    Raises:
        UsageError: weights, adapter, teacher or device cannot be used.
        MissingError: the bundled model, or a torch that knows the device, is not installed.
    """

    def __init__(
        self,
        policy: PolicyConfig,
        optimiser: OptimiserConfig | None = None,
        *,
        teacher: TeacherConfig | None = None,
        micro_tokens: int = 2048,
        temperature: float = 1.0,
        seed: int = 0,
        group: Group = ALONE,
        sharded: bool = False,
    ) -> None:
        self.step = 0
        self._policy = policy
        self._group, self._sharded, self._seed, self._calls = group, sharded, seed, 0
        self._micro_tokens = micro_tokens
        self._temperature = temperature
        self._device = device_of(policy.device)
        self._dtype = computed_in(policy.dtype, self._device)
        torch.manual_seed(seed)
        if policy.scratch is not None:
            self._folder, model = policy.scratch.tokenizer, random_model(policy.scratch, self._dtype, seed)
        else:
            self._folder = policy_folder(policy.weights)
            model = load_model(self._folder, self._dtype)
        self._adapted: Any = None
        if policy.method == "lora":
            self._adapted = (
                adapters.go_on(model, policy.start, self._folder)
                if policy.start is not None
                else adapters.begin(model, policy.adapter, self._folder.name, seed)
            )
        self._model: Any = model
        owner = self._adapted if self._adapted is not None else model
        self._read = TargetLogprobs(model, self._temperature)
        if sharded:
            shard(self._read, model.model.layers, self._device, self._dtype)
        owner.to(self._device)
        trained = {name: value for name, value in owner.named_parameters() if value.requires_grad}
        self._optimiser = Optimiser(trained, optimiser or OptimiserConfig())
        self._began: dict[str, Tensor] | None = None
        if self._adapted is None or policy.start is not None:
            self._began = self._optimiser.copy()
        tokenizer = tokenizer_digest(self._folder)
        self._teacher = (
            None if teacher is None else Teacher(teacher, self._dtype, self._temperature, tokenizer, self._device)
        )
        self._tokenizer = tokenizer
        self._sampler: Sampler | None = None
        self._drawing: tuple[int, Path] | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    @property
    def context(self) -> int:
        """The most ids a sample may have."""
        own = int(self._model.config.max_position_embeddings)
        return own if self._policy.context is None else min(own, self._policy.context)

    @property
    def folder(self) -> Path:
        """Where the weights, or for random ones the tokenizer, were read from."""
        return self._folder

    def as_module(self) -> Any:
        """The torch module itself, with its adapter if it has one: for other trainers that change it in place."""
        return self._adapted if self._adapted is not None else self._model

    @property
    def parameters(self) -> tuple[int, int]:
        """How many numbers are trained, and how many there are in all."""
        everything = sum(parameter.numel() for parameter in self._model.parameters())
        return sum(master.numel() for master in self._optimiser.masters.values()), everything

    def check(self, samples: Sequence[Sample], algorithm: Algorithm) -> None:
        """See that samples can be trained on: all of a run before it begins, as it would stop at the first.

        Raises:
            SampleError, BatchError, UsageError: one cannot; the teacher is missing or cannot read one.
        """
        self._readable(samples)
        check_known(samples, algorithm)
        check_taught(samples, algorithm, self._teacher)

    def _readable(self, samples: Sequence[Sample]) -> None:
        check_readable(samples, int(self._model.config.vocab_size), self.context, tokenizer=self._tokenizer)

    def forward_backward(self, samples: Sequence[Sample], algorithm: Algorithm) -> StepResult:
        """See `Engine`."""
        self._model.train()
        if self._group.size > 1:  # dropout draws otherwise in every process, and alike after a resume
            own = np.random.SeedSequence([self._seed, self.step, self._calls, self._group.rank])
            torch.manual_seed(int(own.generate_state(1)[0]))
        self._calls += 1
        try:
            return self._over(samples, algorithm, backward=True)
        except torch.OutOfMemoryError as error:
            raise SilvaError(
                f"the GPU's memory is full at step {self.step + 1}: lower micro_tokens ({self._micro_tokens}), shorten "
                "samples, or share the weights (docs/guides/gpus.md); --resume goes on from the last checkpoint",
                Exit.INCOMPLETE,
            ) from error
        finally:
            self._model.eval()

    def evaluate(self, samples: Sequence[Sample], algorithm: Algorithm) -> StepResult:
        """See `Engine`."""
        self._model.eval()
        with torch.no_grad():
            return self._over(samples, algorithm, backward=False)

    def optim_step(self, learning_rate: float) -> Update:
        """See `Engine`."""
        if self._group.size > 1 and not self._sharded:
            self._optimiser.sum_gradients(self._group)
        norm, applied = self._optimiser.step(learning_rate)
        self.step += applied
        self._calls = 0
        return Update(learning_rate=learning_rate, gradient_norm=norm, applied=applied)

    def logprobs(self, samples: Sequence[Sample]) -> list[Floats]:
        """See `Engine`."""
        self._model.eval()
        self._readable(samples)
        found: list[Floats] = []
        with torch.no_grad():
            for sample in samples:
                batch = MicroBatch.of([sample]).to(self._device)
                values = self._read(batch)[:, 0] if len(batch.targets) else torch.zeros(0)
                found.append(values.cpu().numpy())
        return found

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        most_tokens: int,
        temperature: float = 1.0,
        seed: int = 0,
        ends: frozenset[int] | None = None,
    ) -> list[Drawn]:
        """See `Engine`."""
        for number, prompt in enumerate(prompts):
            if not 1 <= len(prompt) <= self.context - most_tokens:
                raise UsageError(
                    f"prompt {number}: {len(prompt)} ids and {most_tokens} to come; the context holds {self.context}"
                )
        return self._sampling().draw(prompts, most_tokens=most_tokens, temperature=temperature, seed=seed, ends=ends)

    def save_weights_for_sampler(self, folder: Path) -> Path:
        """See `Engine`."""
        tensors: dict[str, Tensor] = {}
        if self._adapted is None:
            tied = self._model.config.tie_word_embeddings
            state = {name: value for name, value in self._model.state_dict().items() if not tied or name != _HEAD}
            tensors = wholes(state, keep=self._group.leads)
        if not self._group.leads:
            return folder
        folder.mkdir()
        if self._adapted is not None:
            adapters.save(self._adapted, self._optimiser.masters, folder, self._base)
            return folder
        self._model.config.save_pretrained(folder)
        write_tensors({name: value.to(self._dtype) for name, value in tensors.items()}, folder / "model.safetensors")
        for name in TOKENIZER:
            if (self._folder / name).is_file():
                shutil.copyfile(self._folder / name, folder / name)
        return folder

    @cached_property
    def _base(self) -> str:
        """Digest of the weights an adapter lies on; large ones take seconds to read, so once and by one process."""
        return weights_digest(self._folder)

    def save_state(self, folder: Path) -> None:
        """See `Engine`."""
        tensors = wholes(self._optimiser.tensors(), keep=self._group.leads)
        if not self._group.leads:
            return
        tensors["random"] = torch.get_rng_state()
        if self._device.type == "cuda":
            tensors[_GPU_RANDOM] = torch.cuda.get_rng_state(self._device)
        write_tensors(tensors, folder / TENSORS)
        (folder / STATE).write_text(json.dumps({"step": self.step, "dtype": str(self._dtype)}), encoding="utf-8")

    def load_state(self, folder: Path) -> None:
        """See `Engine`."""
        try:
            said = json.loads((folder / STATE).read_text(encoding="utf-8"))
            tensors = load_file(folder / TENSORS)
        except (OSError, ValueError, SafetensorError) as error:
            raise UsageError(f"checkpoint {folder.name}: cannot be read ({error})") from error
        if said["dtype"] != str(self._dtype):
            raise UsageError(f"checkpoint {folder.name}: computed in {said['dtype']}, this run in {self._dtype}")
        torch.set_rng_state(tensors.pop("random"))
        drawn = tensors.pop(_GPU_RANDOM, None)
        if drawn is not None and self._device.type == "cuda":
            torch.cuda.set_rng_state(drawn, self._device)
        self._optimiser.load(tensors)
        self.step = int(said["step"])

    def close(self) -> None:
        """Let go of the sampler."""
        if self._sampler is not None:
            self._sampler.close()
            self._sampler = None
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    def _over(self, samples: Sequence[Sample], algorithm: Algorithm, backward: bool) -> StepResult:
        started = time.monotonic()
        self.check(samples, algorithm)
        pairs = "pairs" in algorithm.needs
        if pairs and len(samples) % 2:
            raise SampleError(f"{len(samples)} samples are no pairs: each chosen one is followed by its rejected one")
        totals = Totals.of(samples, pairs=len(samples) // 2 if pairs else 0)
        value, metrics, tokens, targets = 0.0, dict[str, float](), 0, 0
        batches, idle = self._mine(samples, pairs)
        for batch in batches:
            loss = self._loss(batch.to(self._device), algorithm, totals)
            if backward:
                loss.value.backward()
            value += float(loss.value.detach())
            for name, part in loss.metrics.items():
                metrics[name] = metrics.get(name, 0.0) + part
            tokens, targets = tokens + batch.ids.shape[1], targets + len(batch.targets)
        for batch in idle:
            loss = self._loss(batch.to(self._device), algorithm, totals)
            if backward:
                (loss.value * 0.0).backward()
        result = StepResult(
            loss=value,
            metrics=metrics,
            samples=len(samples),
            tokens=tokens,
            loss_tokens=targets,
            seconds=time.monotonic() - started,
        )
        if self._group.size == 1:
            return result
        return replace(together(self._group.told(result)), samples=len(samples))

    def _mine(self, samples: Sequence[Sample], pairs: bool) -> tuple[list[MicroBatch], list[MicroBatch]]:
        """What of a step this process computes; and what it computes to no effect because others, with weights in
        parts, have more micro-batches and need this one's parts for each."""
        if self._group.size == 1:
            return micro_batches(samples, self._micro_tokens, pairs), []
        mine = share(samples, self._group.size, pairs)[self._group.rank]
        batches = micro_batches(mine, self._micro_tokens, pairs)
        if not self._sharded:
            return batches, []
        most = max(self._group.told(len(batches)))
        if len(batches) == most:
            return batches, []
        filler = batches or micro_batches(samples, self._micro_tokens, pairs)
        return batches, filler[:1] * (most - len(batches))

    def _loss(self, batch: MicroBatch, algorithm: Algorithm, totals: Totals) -> Loss:
        needs = algorithm.needs
        reference = teacher = top = asked = None
        if "reference" in needs:
            with self._as_it_began():
                reference = self._read(batch)[:, 0]
        if "teacher" in needs or "teacher_top" in needs:
            assert self._teacher is not None  # checked before
            teacher, asked = self._teacher.judge(batch, alternatives="teacher_top" in needs)
        logprobs = self._read(batch, asked)
        if asked is not None:
            top = logprobs[:, 1:]
        return algorithm.loss(
            collate(
                batch.samples,
                logprobs[:, 0],
                reference=reference,
                teacher=teacher,
                top=top,
                tokenizer=self._tokenizer,
                pairs="pairs" in needs,
                totals=totals,
            )
        )

    @contextmanager
    def _as_it_began(self) -> Iterator[None]:
        training = self._model.training
        self._model.eval()
        try:
            if self._began is not None:
                with self._optimiser.holding(self._began):
                    yield
            else:
                with torch.no_grad(), self._adapted.disable_adapter():
                    yield
        finally:
            self._model.train(training)

    def _sampling(self) -> Sampler:
        """The sampler, with the present weights."""
        if self._drawing is not None and self._drawing[0] == self.step and self._sampler is not None:
            return self._sampler
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="silva-sampler-")
        folder = self.save_weights_for_sampler(Path(self._scratch.name) / f"step-{self.step}-{time.monotonic_ns()}")
        if self._adapted is not None:
            self._sampler = self._sampler or Sampler(self._folder, self._dtype)
            self._sampler.adopt(folder)
        else:
            if self._sampler is not None:
                self._sampler.close()
            self._sampler = Sampler(folder, self._dtype)
        shutil.rmtree(folder)
        self._drawing = (self.step, folder)
        return self._sampler
