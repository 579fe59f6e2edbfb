"""A LoRA adapter in PEFT's folder format, checked against the base it is said to be for, and what it adds to the base.

    base_model.model.PATH.lora_A.weight [rank, in], lora_B.weight [out, rank] ─▶ PATH.weight [out, in] += scale · B A

Source: Hu et al. 2021, LoRA (arXiv:2106.09685), section 4.1; the scale is alpha / r, or alpha / sqrt(r) where
rank-stabilised.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np

from silva.errors import UsageError
from silva.models.local import BASE_DIGEST
from silva.train.registry.tensors import Floats, Shapes, read_metadata, read_tensors, values
from silva.train.registry.version import Base
from silva.train.registry.weights import WeightsFolder

PREFIX = "base_model.model."
_HALVES = (".lora_A.weight", ".lora_B.weight")
_PLAIN_STARTS = (None, True, False, "gaussian", "orthogonal", "eva")
"""Ways to begin an adapter that leave the base weights as they are; the others (pissa, olora, …) change them."""
_BEYOND = (
    *("use_dora", "fan_in_fan_out", "lora_bias", "use_qalora", "modules_to_save", "rank_pattern", "alpha_pattern"),
    *("layer_replication", "target_parameters", "alora_invocation_tokens", "trainable_token_indices"),
)
"""Fields of PEFT's config that make more of an adapter than two matrices a module."""


class LoraConfig(msgspec.Struct, frozen=True):
    """The fields of `adapter_config.json` that say how the weights are meant."""

    peft_type: str
    r: int
    lora_alpha: float
    use_rslora: bool = False
    base_model_name_or_path: str | None = None
    bias: str = "none"
    init_lora_weights: bool | str | None = True


class LoraAdapter:
    """An adapter folder, its config checked.

    Raises:
        UsageError: it is no plain LoRA; one line says why.
    """

    def __init__(self, folder: WeightsFolder) -> None:
        self.name = folder.path.name
        self._folder = folder
        raw: dict[str, Any] = folder.config()
        try:
            self.config = msgspec.convert(raw, LoraConfig)
        except msgspec.ValidationError as error:
            raise UsageError(f"adapter {self.name}: its config is not that of a LoRA: {error}") from error
        if self.config.peft_type.upper() != "LORA":
            raise UsageError(f"adapter {self.name}: it is of type {self.config.peft_type}; only LORA can be kept")
        if self.config.r < 1 or not math.isfinite(self.config.lora_alpha):
            raise UsageError(f"adapter {self.name}: its rank or lora_alpha is no number that can be meant")
        if self.config.bias != "none":
            raise UsageError(f"adapter {self.name}: it trains biases (bias={self.config.bias}), which cannot be kept")
        if self.config.init_lora_weights not in _PLAIN_STARTS:
            started = self.config.init_lora_weights
            raise UsageError(
                f"adapter {self.name}: init_lora_weights={started} changes the base weights; convert it with peft first"
            )
        for field in _BEYOND:
            if raw.get(field):
                raise UsageError(f"adapter {self.name}: it uses {field}, which cannot be kept")

    @property
    def scale(self) -> float:
        """What the product of the two matrices is multiplied by."""
        rank = self.config.r
        return self.config.lora_alpha / (math.sqrt(rank) if self.config.use_rslora else rank)

    def check(self, base: Base, shapes: Shapes) -> None:
        """Check that it was trained on this base and fits it.

        Args:
            base: the base it is said to be for.
            shapes: names and shapes of the base's tensors.

        Raises:
            UsageError: it was trained on another, or a matrix fits none of the base's.
        """
        self._check_origin(base)
        halves = self._folder.shapes()
        if not halves:
            raise UsageError(f"adapter {self.name}: it holds no weights")
        for key, shape in halves.items():
            target = _target(key)
            other = key.replace(".lora_A.", ".lora_B.") if ".lora_A." in key else key.replace(".lora_B.", ".lora_A.")
            wanted = shapes.get(f"{target}.weight", ()) if target else ()
            if len(wanted) != 2 or other not in halves:
                raise UsageError(f"adapter {self.name}: {key} has no counterpart in the base {base.label}")
            right = (self.config.r, wanted[1]) if ".lora_A." in key else (wanted[0], self.config.r)
            if shape != right:
                raise UsageError(
                    f"adapter {self.name}: {key} has shape {list(shape)}, the base {base.label} needs {list(right)}"
                )

    def deltas(self) -> dict[str, tuple[Floats, Floats]]:
        """For each tensor of the base that it changes: B times the scale [out, rank] and A [rank, in].

        Raises:
            UsageError: a value is no finite number.
        """
        tensors = {key: values(tensor) for key, tensor in read_tensors(self._folder.weights[0]).items()}
        for key, array in tensors.items():
            if not np.isfinite(array).all():
                raise UsageError(f"adapter {self.name}: {key} holds values that are not finite numbers")
        found: dict[str, tuple[Floats, Floats]] = {}
        for key, array in tensors.items():
            if key.endswith(_HALVES[0]):
                up = tensors[key.replace(_HALVES[0], _HALVES[1])]
                found[f"{_target(key)}.weight"] = (up * np.float32(self.scale), array)
        return found

    def _check_origin(self, base: Base) -> None:
        said = (self.config.base_model_name_or_path or "").replace("\\", "/").rstrip("/")
        digest = read_metadata(self._folder.weights[0]).get(BASE_DIGEST, "")
        if digest:
            if digest != base.digest:
                trained_on = said.rpartition("/")[2] or "weights"
                raise UsageError(
                    f"adapter {self.name}: it was trained on {trained_on} ({digest}), the line grows from {base.label}"
                )
            return
        if not said:
            return
        origin = self._folder.path / said
        if origin.is_dir():  # the very folder it was trained on is here
            digest = WeightsFolder(origin).digest()
            if digest != base.digest:
                raise UsageError(
                    f"adapter {self.name}: it was trained on {origin.name} ({digest}), the line grows from {base.label}"
                )
        elif not said.rpartition("/")[2].lower().startswith(base.name.lower()):
            trained_on = said.rpartition("/")[2]
            raise UsageError(f"adapter {self.name}: it was trained on {trained_on}, this line grows from {base.label}")


def _target(key: str) -> str:
    """The module a half belongs to; "" where the key is of no half."""
    half = next((half for half in _HALVES if key.endswith(half)), None)
    return key.removeprefix(PREFIX).removesuffix(half) if half and key.startswith(PREFIX) else ""
