"""One LoRA adapter: a PEFT folder, checked against the network and laid out for its fused projections.

    adapter_config.json ─▶ rank, alpha, scale ─┐
    adapter_model.safetensors ─▶ names, shapes ┴▶ per layer and site: (down [ranks, in], up [out, ranks] x scale)

The network multiplies query, key and value at once, and gate and up at once: where several of them are adapted, their
`down` are stacked and their `up` stand in blocks, so that a site costs two small multiplications, however many of its
projections are adapted.
"""

from __future__ import annotations

import hashlib
import math
import re
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load
from torch import Tensor

from silva.errors import UsageError
from silva.models.local import BASE_DIGEST
from silva.models.local.adapted import SITES, Adapter, Pair
from silva.models.local.network import Network

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"

MOST_RANK = 256
MOST_BYTES = 1 << 30
"""No adapter of this network is larger; a larger file is not read into memory."""

_NAME = re.compile(
    r"base_model\.model\.model\.layers\.(\d+)\.(?:self_attn|mlp)\.([a-z]+)_proj\.lora_([AB])\.weight", re.ASCII
)
_PLAIN_STARTS = (None, True, False, "gaussian", "orthogonal", "eva")
"""Ways to begin an adapter that leave the base weights as they are; the others (pissa, olora, …) change them."""


class AdapterConfig(msgspec.Struct, frozen=True):
    """The fields of `adapter_config.json` that say how the weights are meant; those after `init_lora_weights` cannot be
    served where they say anything."""

    peft_type: str
    r: int
    lora_alpha: float
    target_modules: list[str] | str | None = None
    use_rslora: bool = False
    base_model_name_or_path: str | None = None
    bias: str = "none"
    init_lora_weights: bool | str | None = True
    use_dora: Any = None
    fan_in_fan_out: Any = None
    lora_bias: Any = None
    use_qalora: Any = None
    modules_to_save: Any = None
    rank_pattern: Any = None
    alpha_pattern: Any = None
    layer_replication: Any = None
    target_parameters: Any = None
    alora_invocation_tokens: Any = None

    @property
    def scale(self) -> float:
        """What the product of the two matrices is multiplied by."""
        return self.lora_alpha / (math.sqrt(self.r) if self.use_rslora else self.r)


def read_adapter(folder: Path, network: Network, base: str, base_digest: str = "") -> Adapter:
    """Read and check a PEFT folder.

    Args:
        folder: holds `adapter_config.json` and `adapter_model.safetensors`.
        network: what it must fit.
        base: name of the base model; the config must not name another, unless the digests agree.
        base_digest: of its weights; an adapter that records another is refused. "": not known, names are compared.

    Raises:
        UsageError: it is no such folder, cannot be read, or does not fit; one line says why.
    """
    config = _config(folder)
    data = _bytes(folder / WEIGHTS)
    try:
        tensors = load(data)
    except (SafetensorError, KeyError, ValueError) as fault:  # KeyError: a number format torch does not have
        raise UsageError(f"adapter {folder.name}: {WEIGHTS} cannot be read: {_line(fault)}") from fault
    _check_base(folder.name, config, recorded_digest(folder), base, base_digest)
    halves = _halves(folder.name, tensors, config, network)
    scale = f"{config.scale:.17g}".encode()
    digest = hashlib.blake2b(scale + b"\0" + data, digest_size=6).hexdigest()
    layers: list[dict[str, Pair]] = [{} for _ in range(network.depth)]
    for layer in range(network.depth):
        for site, parts in SITES.items():
            found = {part: halves[layer, part] for part in parts if (layer, part) in halves}
            if found:
                layers[layer][site] = _fused(parts, found, network, config.scale)
    return Adapter(digest, config.r, layers)


def _config(folder: Path) -> AdapterConfig:
    name = folder.name
    try:
        config = msgspec.json.decode((folder / CONFIG).read_bytes(), type=AdapterConfig)
    except OSError as fault:
        raise UsageError(f"adapter {name}: {CONFIG} cannot be read: {fault.strerror or fault}") from fault
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise UsageError(f"adapter {name}: {CONFIG} is not a LoRA config: {_line(fault)}") from fault
    if config.peft_type.upper() != "LORA":
        raise UsageError(f"adapter {name}: it is of type {config.peft_type}; only LORA can be served")
    if not 1 <= config.r <= MOST_RANK:
        raise UsageError(f"adapter {name}: its rank is {config.r}; possible are 1 to {MOST_RANK}")
    if not math.isfinite(config.lora_alpha):
        raise UsageError(f"adapter {name}: its lora_alpha is not a number")
    if config.bias != "none":
        raise UsageError(f"adapter {name}: it trains biases (bias={config.bias}), which cannot be served")
    if config.init_lora_weights not in _PLAIN_STARTS:
        raise UsageError(
            f"adapter {name}: init_lora_weights={config.init_lora_weights} changes the base weights;"
            " convert it to a plain LoRA with peft first"
        )
    fields = AdapterConfig.__struct_fields__
    for field in fields[fields.index("use_dora") :]:
        if getattr(config, field):
            raise UsageError(f"adapter {name}: it uses {field}, which cannot be served")
    return config


def _check_base(name: str, config: AdapterConfig, recorded: str, base: str, base_digest: str) -> None:
    trained_on = (config.base_model_name_or_path or "").replace("\\", "/").rstrip("/").rpartition("/")[2]
    if recorded and base_digest:
        if recorded != base_digest:
            raise UsageError(
                f"adapter {name}: it was trained on {trained_on or 'weights'} ({recorded}), "
                f"this server has {base} ({base_digest})"
            )
    elif trained_on and not trained_on.lower().startswith(base.lower()):
        raise UsageError(f"adapter {name}: it was trained on {trained_on}, this server has {base}")


def recorded_digest(folder: Path) -> str:
    """The digest of its base that an adapter's weights tell; "" where they tell none or cannot be read."""
    try:
        with safe_open(folder / WEIGHTS, "pt") as opened:
            return (opened.metadata() or {}).get(BASE_DIGEST, "")
    except (OSError, SafetensorError):
        return ""  # who reads the weights says what is wrong with them


def _bytes(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise UsageError(f"adapter {path.parent.name}: {WEIGHTS} has {size} bytes, more than any adapter here")
        return path.read_bytes()
    except OSError as fault:
        raise UsageError(f"adapter {path.parent.name}: {WEIGHTS} cannot be read: {fault.strerror or fault}") from fault


def _halves(
    name: str, tensors: dict[str, Tensor], config: AdapterConfig, network: Network
) -> dict[tuple[int, str], Pair]:
    """The matrices A and B of each layer and projection, checked."""
    found: dict[tuple[int, str], dict[str, Tensor]] = {}
    for key in sorted(tensors):
        match = _NAME.fullmatch(key)
        if match is None or match[2] not in network.shapes or int(match[1]) >= network.depth:
            raise UsageError(f"adapter {name}: it adapts {key}, which this model has not or which cannot be served")
        part, half, tensor = match[2], match[3], tensors[key]
        width_in, width_out = network.shapes[part]
        wanted = (config.r, width_in) if half == "A" else (width_out, config.r)
        if tuple(tensor.shape) != wanted:
            shapes = f"has shape {list(tensor.shape)} where this model needs {list(wanted)}"
            raise UsageError(f"adapter {name}: {key} {shapes}")
        if not tensor.is_floating_point() or not bool(torch.isfinite(tensor.float()).all()):
            raise UsageError(f"adapter {name}: {key} holds values that are not finite numbers")
        found.setdefault((int(match[1]), part), {})[half] = tensor.float()
    for (layer, part), pair in found.items():
        if len(pair) < 2:
            raise UsageError(f"adapter {name}: layer {layer} {part}_proj has only one of its two matrices")
    if not found:
        raise UsageError(f"adapter {name}: {WEIGHTS} holds no weights")
    _targets(name, config, {part for _, part in found})
    return {place: (pair["A"], pair["B"]) for place, pair in found.items()}


def _targets(name: str, config: AdapterConfig, present: set[str]) -> None:
    if not isinstance(config.target_modules, list):
        return  # a pattern, or peft's default for the model
    named = {module.rpartition(".")[2].removesuffix("_proj") for module in config.target_modules}
    if missing := sorted(named - present):
        raise UsageError(f"adapter {name}: its config names the target {missing[0]}_proj, its weights do not hold it")
    if extra := sorted(present - named):
        raise UsageError(f"adapter {name}: its weights hold {extra[0]}_proj, which its config does not name")


def _fused(parts: tuple[str, ...], found: dict[str, Pair], network: Network, scale: float) -> Pair:
    down = torch.cat([found[part][0] for part in parts if part in found])
    up = torch.zeros(sum(network.shapes[part][1] for part in parts), len(down))
    row = column = 0
    for part in parts:
        width = network.shapes[part][1]
        if part in found:
            block = found[part][1]
            up[row : row + width, column : column + block.shape[1]] = block * scale
            column += block.shape[1]
        row += width
    return down.to(network.dtype).contiguous(), up.to(network.dtype).contiguous()


def _line(fault: BaseException) -> str:
    return " ".join(str(fault).split())[:200]
