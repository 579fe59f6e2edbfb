"""LoRA adapters on a model, through peft: begun, gone on with, and written so that Silva's own server loads them.

begin: A random by seed, B nought ─▶ trained ─▶ adapter_config.json, adapter_model.safetensors ─▶ server
                                      ▲                                      │
                                      └──────────── go_on ◀──────────────────┘

An adapter is of one base. The metadata of its weights holds the digest of the base's; where that is missing the folder
its config names is looked at if it is here, else the name has to do.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from silva.errors import UsageError
from silva.models.local import BASE_DIGEST, MODEL
from silva.models.local.adapter import recorded_digest
from silva.train.config import PROJECTIONS, AdapterConfig
from silva.train.engines.tensor_file import write_tensors
from silva.train.engines.weights import weights_digest

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"

_UNPACKED = re.compile(re.escape(MODEL) + r"-[0-9a-f]{12}", re.ASCII)
"""The folder the bundled model was unpacked into, see `silva.models.bundled`."""


def begin(model: Any, shape: AdapterConfig, base: str, seed: int) -> Any:
    """`model` with a new adapter that changes nothing yet; only the adapter is trained.

    Args:
        model: of the llama family.
        shape: rank, scale, targets.
        base: the base's name, written into the adapter.
        seed: of its random half.
    """
    model.config._name_or_path = model.name_or_path = base  # else peft names the folder's path
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by a name that is to go
        torch.manual_seed(seed)
        adapted = get_peft_model(
            model,
            LoraConfig(
                task_type="CAUSAL_LM",
                r=shape.rank,
                lora_alpha=shape.alpha,  # pyright: ignore[reportArgumentType]
                lora_dropout=shape.dropout,
                target_modules=list(shape.targets),
                base_model_name_or_path=base,
            ),
            autocast_adapter_dtype=False,  # its masters are in float32, see `optimiser`
        )
    return adapted


def go_on(model: Any, folder: Path, base: Path) -> Any:
    """`model`, the one of the folder `base`, with the adapter of a folder, to be trained further.

    Raises:
        UsageError: it is no plain LoRA, is of another base, or does not fit.
    """
    shape = read_shape(folder, base)
    adapted = begin(model, shape, base.name, 0)
    write_into(adapted, folder)
    return adapted


def merge_into(model: Any, folder: Path, base: Path) -> Any:
    """`model` with the adapter of a folder added to its weights.

    Raises:
        UsageError: as `go_on`.
    """
    return go_on(model, folder, base).merge_and_unload()


def read_shape(folder: Path, base: Path) -> AdapterConfig:
    """The shape of the adapter in a folder, to be put on the weights in `base`.

    Raises:
        UsageError: it cannot be read, is no plain LoRA, or is of another base.
    """
    name = folder.name
    try:
        said: Any = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        targets, rank, alpha = said["target_modules"], int(said["r"]), float(said["lora_alpha"])
    except OSError as error:
        raise UsageError(f"adapter {name}: {CONFIG} cannot be read: {error.strerror or error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"adapter {name}: {CONFIG} is not that of a LoRA ({' '.join(str(error).split())})") from error
    beyond = ("use_dora", "use_rslora", "modules_to_save", "rank_pattern", "alpha_pattern", "lora_bias")
    used = next((field for field in beyond if said.get(field)), None)
    if used or str(said.get("peft_type", "LORA")).upper() != "LORA" or said.get("bias", "none") != "none":
        raise UsageError(f"adapter {name}: it uses {used or 'biases or is no LoRA'}, which cannot be trained on here")
    if not isinstance(targets, list) or not set(targets) <= set(PROJECTIONS):
        raise UsageError(f"adapter {name}: its targets are {targets}; possible are {', '.join(PROJECTIONS)}")
    _check_base(folder, str(said.get("base_model_name_or_path") or ""), base)
    return AdapterConfig(
        rank=rank,
        alpha=alpha,
        dropout=float(said.get("lora_dropout") or 0.0),
        targets=tuple(target for target in PROJECTIONS if target in targets),  # pyright: ignore[reportArgumentType]
    )


def _check_base(folder: Path, said: str, base: Path) -> None:
    """See that an adapter is of a base: by the weights' digest where it can be had, else by name.

    Args:
        folder: the adapter's.
        said: what its config calls its base.
        base: the folder of the weights it is to be put on.

    Raises:
        UsageError: it is of another.
    """
    said = said.replace("\\", "/").rstrip("/")
    trained_on = said.rpartition("/")[2]
    digest = recorded_digest(folder)
    if not digest and said and any((folder / said).glob("*.safetensors")):  # the very folder it was trained on
        digest = weights_digest(folder / said)
    if digest:
        mine = weights_digest(base)
        if digest != mine:
            raise UsageError(
                f"adapter {folder.name}: it was trained on {trained_on or 'weights'} ({digest}), "
                f"the policy's weights are {base.name} ({mine})"
            )
    elif trained_on and not _same_base(trained_on.lower(), base.name.lower()):
        raise UsageError(f"adapter {folder.name}: it was trained on {trained_on}, the policy's weights are {base.name}")


def _same_base(one: str, other: str) -> bool:
    """Whether two names are of one base. The bundled model has two: its own, which the registry writes into an adapter,
    and that of the folder it was unpacked into, which the trainer does."""
    names = {one, other}
    return len(names) == 1 or (MODEL in names and any(_UNPACKED.fullmatch(name) for name in names))


def write_into(adapted: Any, folder: Path) -> None:
    """Give a model's adapter the weights of a folder.

    Raises:
        UsageError: they cannot be read or do not fit.
    """
    try:
        tensors = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise UsageError(f"adapter {folder.name}: {WEIGHTS} cannot be read ({error})") from error
    mine = {_plain(name): parameter for name, parameter in adapted.named_parameters() if ".lora_" in name}
    for name, parameter in mine.items():
        given = tensors.get(name)
        if given is None or given.shape != parameter.shape or not bool(torch.isfinite(given).all()):
            said = "lacks it" if given is None else f"has {list(given.shape)}, or values that are no finite numbers"
            raise UsageError(f"adapter {folder.name}: {name} of shape {list(parameter.shape)}: it {said}")
        parameter.data = given.to(parameter.dtype)
    if unknown := sorted(set(tensors) - set(mine)):
        raise UsageError(f"adapter {folder.name}: it adapts {unknown[0]}, which these weights do not have")


def save(adapted: Any, masters: Mapping[str, Tensor], folder: Path, base: str) -> None:
    """Write an adapter in PEFT's format into an empty folder; weights in float32.

    Args:
        adapted: the model, for its adapter's config.
        masters: the adapter's weights by the model's names.
        folder: where to.
        base: digest of the weights it is put on.
    """
    adapted.peft_config["default"].save_pretrained(folder)
    write_tensors(
        {_plain(name): master.float() for name, master in masters.items()}, folder / WEIGHTS, {BASE_DIGEST: base}
    )


def _plain(name: str) -> str:
    return name.replace(".default.", ".")
