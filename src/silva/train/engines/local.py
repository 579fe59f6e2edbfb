"""The engine that computes here: torch for the arithmetic, peft for adapters, Silva's own losses.

    samples ─▶ micro-batches ─▶ log-probabilities of what carries loss: under the policy, and where the algorithm asks
               under the reference (the policy as it began) and the teacher ─▶ collate ─▶ algorithm.loss ─▶ backward

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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from silva.errors import UsageError
from silva.train.algorithms.batch import collate
from silva.train.algorithms.loss import Loss
from silva.train.algorithms.totals import Totals
from silva.train.config import OptimiserConfig, PolicyConfig, TeacherConfig
from silva.train.engines import adapters
from silva.train.engines.engine import Drawn, StepResult, Update
from silva.train.engines.microbatches import MicroBatch, micro_batches
from silva.train.engines.optimiser import Optimiser
from silva.train.engines.sampler import Sampler
from silva.train.engines.teacher import Teacher
from silva.train.engines.tensor_file import write_tensors
from silva.train.engines.token_logprobs import token_logprobs
from silva.train.engines.weights import (
    TOKENIZER,
    computed_in,
    load_model,
    policy_folder,
    random_model,
    tokenizer_digest,
)
from silva.train.sample import Floats, Sample, SampleError

if TYPE_CHECKING:
    from silva.train.algorithms import Algorithm

STATE, TENSORS = "engine.json", "engine.safetensors"
_HEAD = "lm_head.weight"


class LocalEngine:
    """Weights of the llama family, trained in this process.

    Args:
        policy: which weights, and what of them is trained.
        optimiser: AdamW's parameters.
        teacher: who teaches, for the algorithms that ask for one.
        micro_tokens: bounds what is computed at once; changes no result but rounding.
        temperature: samples were drawn at.
        seed: of everything random.

    Raises:
        UsageError: weights, adapter or teacher cannot be used.
        MissingError: the bundled model is not installed.
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
    ) -> None:
        self.step = 0
        self._policy = policy
        self._micro_tokens = micro_tokens
        self._temperature = temperature
        self._dtype = computed_in(policy.dtype)
        torch.manual_seed(seed)
        if policy.scratch is not None:
            self._folder, model = policy.scratch.tokenizer, random_model(policy.scratch, self._dtype, seed)
        else:
            self._folder = policy_folder(policy.weights)
            model = load_model(self._folder, self._dtype)
        self._adapted: Any = None
        if policy.method == "lora":
            name = self._folder.name
            self._adapted = (
                adapters.go_on(model, policy.start, name)
                if policy.start is not None
                else adapters.begin(model, policy.adapter, name, seed)
            )
        self._model: Any = model
        owner = self._adapted if self._adapted is not None else model
        trained = {name: value for name, value in owner.named_parameters() if value.requires_grad}
        self._optimiser = Optimiser(trained, optimiser or OptimiserConfig())
        self._began: dict[str, Tensor] | None = None
        if self._adapted is None or policy.start is not None:
            self._began = self._optimiser.copy()
        tokenizer = tokenizer_digest(self._folder)
        self._teacher = None if teacher is None else Teacher(teacher, self._dtype, self._temperature, tokenizer)
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

    def forward_backward(self, samples: Sequence[Sample], algorithm: Algorithm) -> StepResult:
        """See `Engine`."""
        self._model.train()
        try:
            return self._over(samples, algorithm, backward=True)
        finally:
            self._model.eval()

    def evaluate(self, samples: Sequence[Sample], algorithm: Algorithm) -> StepResult:
        """See `Engine`."""
        self._model.eval()
        with torch.no_grad():
            return self._over(samples, algorithm, backward=False)

    def optim_step(self, learning_rate: float) -> Update:
        """See `Engine`."""
        norm, applied = self._optimiser.step(learning_rate)
        self.step += applied
        return Update(learning_rate=learning_rate, gradient_norm=norm, applied=applied)

    def logprobs(self, samples: Sequence[Sample]) -> list[Floats]:
        """See `Engine`."""
        self._model.eval()
        self._readable(samples)
        found: list[Floats] = []
        with torch.no_grad():
            for sample in samples:
                batch = MicroBatch.of([sample])
                values = self._logprobs(batch, self._hidden(batch))[:, 0] if len(batch.targets) else torch.zeros(0)
                found.append(values.numpy())
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
        folder.mkdir()
        if self._adapted is not None:
            adapters.save(self._adapted, self._optimiser.masters, folder)
            return folder
        self._model.config.save_pretrained(folder)
        tied = self._model.config.tie_word_embeddings
        tensors = {name: value for name, value in self._model.state_dict().items() if not tied or name != _HEAD}
        write_tensors(tensors, folder / "model.safetensors")
        for name in TOKENIZER:
            if (self._folder / name).is_file():
                shutil.copyfile(self._folder / name, folder / name)
        return folder

    def save_state(self, folder: Path) -> None:
        """See `Engine`."""
        tensors = self._optimiser.tensors() | {"random": torch.get_rng_state()}
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
        self._readable(samples)
        pairs = "pairs" in algorithm.needs
        if pairs and len(samples) % 2:
            raise SampleError(f"{len(samples)} samples are no pairs: each chosen one is followed by its rejected one")
        totals = Totals.of(samples, pairs=len(samples) // 2 if pairs else 0)
        self._known(samples, algorithm)
        value, metrics, tokens, targets = 0.0, dict[str, float](), 0, 0
        for batch in micro_batches(samples, self._micro_tokens, pairs):
            loss = self._loss(batch, algorithm, totals)
            if backward:
                loss.value.backward()
            value += float(loss.value.detach())
            for name, part in loss.metrics.items():
                metrics[name] = metrics.get(name, 0.0) + part
            tokens, targets = tokens + batch.ids.shape[1], targets + len(batch.targets)
        return StepResult(
            loss=value,
            metrics=metrics,
            samples=len(samples),
            tokens=tokens,
            loss_tokens=targets,
            seconds=time.monotonic() - started,
        )

    def _loss(self, batch: MicroBatch, algorithm: Algorithm, totals: Totals) -> Loss:
        needs = algorithm.needs
        reference = teacher = top = asked = None
        if "reference" in needs:
            with self._as_it_began():
                reference = self._logprobs(batch, self._hidden(batch))[:, 0]
        if "teacher" in needs or "teacher_top" in needs:
            if self._teacher is None:
                raise UsageError(f"algorithm {algorithm.name}: it needs a teacher; name one as `teacher` in the config")
            teacher, asked = self._teacher.judge(batch, alternatives="teacher_top" in needs)
        logprobs = self._logprobs(batch, self._hidden(batch), asked)
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

    def _hidden(self, batch: MicroBatch) -> Tensor:
        """The last layer's output where a position with loss is predicted, [L, width]."""
        output = self._model.model(
            input_ids=batch.ids, position_ids=batch.positions, use_cache=False, segments=batch.segments
        )
        return output.last_hidden_state[0, batch.read_at]

    def _logprobs(self, batch: MicroBatch, hidden: Tensor, more: Tensor | None = None) -> Tensor:
        ids = batch.targets[:, None] if more is None else torch.cat([batch.targets[:, None], more], dim=1)
        return token_logprobs(hidden, self._model.lm_head.weight, ids, self._temperature)

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

    def _readable(self, samples: Sequence[Sample]) -> None:
        vocabulary, context = int(self._model.config.vocab_size), self.context
        for sample in samples:
            if len(sample) > context:
                raise SampleError(
                    f"{sample.name}: {len(sample)} ids, the policy's context holds {context}; "
                    "truncate it with `silva train samples --limit`"
                )
            if sample.images:
                raise SampleError(f"{sample.name}: it shows images, which this policy cannot see")
            if len(sample) and not 0 <= int(sample.ids.min()) <= int(sample.ids.max()) < vocabulary:
                raise SampleError(
                    f"{sample.name}: it holds id {int(sample.ids.max())}, the policy has {vocabulary}: it was made "
                    "with another tokenizer"
                )

    def _known(self, samples: Sequence[Sample], algorithm: Algorithm) -> None:
        if "logprobs" not in algorithm.needs:
            return
        for sample in samples:
            if np.isnan(sample.logprobs[sample.mask]).any():
                raise SampleError(
                    f"{sample.name}: it has no log-probabilities, which {algorithm.name} needs; roll out with them "
                    "(sampling.logprobs=true), or train with sft"
                )

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
