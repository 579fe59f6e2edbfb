"""TRL's asynchronous trainer from an online run's configuration, and its weights as Silva writes weights."""

from __future__ import annotations

import importlib.util
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoTokenizer, PrinterCallback
from trl.experimental.async_grpo import AsyncGRPOConfig, async_grpo_trainer  # pyright: ignore[reportPrivateImportUsage]

from silva.errors import MissingError, UsageError
from silva.train.config import AdapterConfig
from silva.train.engines import adapters
from silva.train.engines.device import device_of
from silva.train.engines.tensor_file import write_tensors
from silva.train.engines.weights import TOKENIZER, policy_folder, weights_digest
from silva.train.online.trl_async.attention import NAME
from silva.train.online.trl_async.handover import Handover
from silva.train.online.trl_async.rollouts import Rollouts
from silva.train.online.trl_async.settings import arguments
from silva.train.online.trl_async.trainer import StepTrainer

if TYPE_CHECKING:
    from silva.train.online.config import OnlineConfig

_HEAD = "lm_head.weight"
_HOPPER = (9, 0)


class TrlEngine:
    """Weights that TRL trains, with the protocols that feed it and take from it.

    Args:
        config: of the run; `engine: trl-async`.
        algorithm: its GRPO.

    Raises:
        UsageError: weights or adapter cannot be used, or the attention is none for this machine.
        MissingError: the bundled model, or what the attention needs, is not installed.
    """

    def __init__(self, config: OnlineConfig, algorithm: Any) -> None:
        self._folder = policy_folder(config.policy.weights)
        self._lora = config.policy.method == "lora"
        cuda = device_of(config.policy.device).type == "cuda"
        attention = _attention(config.trl.attention, cuda)
        tokenizer: Any = AutoTokenizer.from_pretrained(self._folder, local_files_only=True)
        self.rollouts, self.handover = Rollouts(), Handover()
        try:
            with _told_no_peak_speed(cuda), warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # of names that TRL itself still uses
                settings: Any = AsyncGRPOConfig(**arguments(config, algorithm, cuda))
                settings._n_gpu = min(1, settings.n_gpu)  # of several GPUs one: the others are who serves
                self.trainer = StepTrainer(
                    str(self._folder),
                    args=settings,
                    train_dataset=Dataset.from_dict({"prompt": [""]}),  # not read: the worker brings what is trained on
                    processing_class=tokenizer,
                    peft_config=self._adapter(config) if self._lora else None,
                    rollout_worker=self.rollouts,
                    weight_transfer=self.handover,
                    micro_tokens=config.micro_tokens,
                )
        except (OSError, ValueError, RuntimeError) as error:
            said = " ".join(str(error).split())[:200]
            raise UsageError(f"engine trl-async: TRL cannot take weights {self._folder.name} ({said})") from error
        self.trainer.remove_callback(PrinterCallback)
        model: Any = self._model
        if attention is not None:
            model.set_attn_implementation(attention)
        if self._lora:  # by name; else peft writes a path of this machine into what it saves
            inner = model.get_base_model()
            inner.name_or_path = inner.config._name_or_path = self._folder.name
            model.peft_config["default"].base_model_name_or_path = self._folder.name
        if config.policy.start is not None:
            adapters.write_into(model, config.policy.start)
        own = int(model.config.max_position_embeddings)
        self.context = own if config.policy.context is None else min(own, config.policy.context)

    @property
    def step(self) -> int:
        """Updates applied so far."""
        return int(self.trainer.state.global_step)

    @property
    def folder(self) -> Path:
        """Where the weights were read from."""
        return self._folder

    @property
    def parameters(self) -> tuple[int, int]:
        """How many numbers are trained, and how many there are in all."""
        sizes = [(parameter.numel(), parameter.requires_grad) for parameter in self._model.parameters()]
        return sum(size for size, trained in sizes if trained), sum(size for size, _ in sizes)

    @property
    def sound(self) -> bool:
        """Whether all that is trained are finite numbers."""
        return all(bool(torch.isfinite(each).all()) for each in self._model.parameters() if each.requires_grad)

    def save_weights_for_sampler(self, folder: Path) -> Path:
        """Write what a server loads: an adapter in PEFT's format, or all weights. `folder` must not be there."""
        folder.mkdir()
        model = self._model
        if self._lora:
            trained = {name: value.detach().cpu() for name, value in model.named_parameters() if value.requires_grad}
            adapters.save(model, trained, folder, self._base)
            return folder
        model.config.save_pretrained(folder)
        tied = model.config.tie_word_embeddings
        tensors = {name: value.cpu() for name, value in model.state_dict().items() if not tied or name != _HEAD}
        write_tensors(tensors, folder / "model.safetensors")
        for name in TOKENIZER:
            if (self._folder / name).is_file():
                shutil.copyfile(self._folder / name, folder / name)
        return folder

    def close(self) -> None:
        """Let go of the trainer's memory."""
        self.trainer.accelerator.free_memory()

    @cached_property
    def _base(self) -> str:
        """Digest of the weights an adapter lies on; large ones take seconds to read, so once."""
        return weights_digest(self._folder)

    @property
    def _model(self) -> Any:
        return self.trainer.accelerator.unwrap_model(self.trainer.model)

    def _adapter(self, config: OnlineConfig) -> LoraConfig:
        start = config.policy.start
        shape: AdapterConfig = config.policy.adapter if start is None else adapters.read_shape(start, self._folder)
        return LoraConfig(
            task_type="CAUSAL_LM",
            r=shape.rank,
            lora_alpha=shape.alpha,  # pyright: ignore[reportArgumentType]
            lora_dropout=shape.dropout,
            target_modules=list(shape.targets),
        )


def _attention(wanted: str, cuda: bool) -> str | None:
    """What the model's attention is changed to; None leaves TRL's own kernel.

    Raises:
        UsageError: the machine has no GPU for the kernel.
        MissingError: what fetches it is not installed.
    """
    if wanted == "torch":
        return NAME
    if not cuda or torch.cuda.get_device_capability() < _HOPPER:
        raise UsageError("trl.attention: fa3 needs an NVIDIA GPU of Hopper or later; take torch")
    if importlib.util.find_spec("kernels") is None:
        raise MissingError("trl.attention: fa3 needs kernels, which is not installed: pip install kernels")
    return None


@contextmanager
def _told_no_peak_speed(cuda: bool) -> Iterator[None]:
    """Without CUDA, answer TRL's question for the device's peak speed with "unknown": it asks CUDA, for one of its
    figures, and its constructor fails where there is none."""
    if cuda:
        yield
        return
    module: Any = async_grpo_trainer
    asked = module.get_peak_flops_per_device
    module.get_peak_flops_per_device = lambda *_: None
    try:
        yield
    finally:
        module.get_peak_flops_per_device = asked
