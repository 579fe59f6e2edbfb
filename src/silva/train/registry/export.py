"""A version written out for others: the adapter, merged weights, or a GGUF. Whole at the end, or not there.

adapter   the PEFT folder as it was kept
merged    base + scale · B A in float32, rounded once ─▶ a Hugging Face folder that transformers loads
gguf      the same weights in one file, the tokenizer of a GGUF carried over (see `gguf_file`)
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np

from silva.errors import UsageError
from silva.train.registry.lora import LoraAdapter
from silva.train.registry.materialise import base_of, drafted, materialise
from silva.train.registry.registry import Registry
from silva.train.registry.tensors import Dtype, Floats, Tensor, read_tensors, stored, values, write_tensors
from silva.train.registry.version import PolicyVersion
from silva.train.registry.weights import CONFIG, WeightsFolder

Format: TypeAlias = Literal["adapter", "merged", "gguf"]

INDEX = "model.safetensors.index.json"
_TORCH: dict[Dtype, str] = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def export_adapter(registry: Registry, version: PolicyVersion, target: Path) -> Path:
    """Write an adapter's PEFT folder.

    Raises:
        UsageError: the version is no adapter, or `target` is there already or cannot be written.
    """
    if version.kind != "adapter":
        raise UsageError(f"{version.name} is no adapter ({version.kind}): export it as merged or gguf")
    with drafted(target) as draft:
        for file in version.files:
            (draft / file.name).write_bytes(registry.contents(file))
    return target


def export_merged(
    registry: Registry, version: PolicyVersion, target: Path, *, base: str = "", dtype: Dtype | None = None
) -> Path:
    """Write a Hugging Face folder with a version's whole weights.

    Args:
        registry: where the version is.
        version: an adapter (merged into its base), whole weights, or a base.
        target: the folder to make.
        base: the base's folder, or `local`; where it is left out, it is found (see `base_of`).
        dtype: the number format to write; each tensor's own when None.

    Raises:
        UsageError: the base is another, or `target` is there already or cannot be written.
    """
    source = _whole(registry, version, base)
    with drafted(target) as draft, TemporaryDirectory(prefix="silva-adapter-") as scratch:
        deltas = _deltas(registry, version, Path(scratch))
        for file in source.files:
            if file not in source.weights:
                shutil.copyfile(file, draft / file.name)
        size = 0
        for file in source.weights:
            merged = {name: added(tensor, deltas.get(name), dtype) for name, tensor in read_tensors(file).items()}
            size += sum(len(tensor.data) for tensor in merged.values())
            write_tensors(draft / file.name, merged)
        if dtype is not None:
            _set_json(draft / CONFIG, {"dtype": _TORCH[dtype], "torch_dtype": None})
        if (draft / INDEX).is_file():
            _set_json(draft / INDEX, {"metadata": {"total_size": size}})
    return target


def export_gguf(
    registry: Registry,
    version: PolicyVersion,
    target: Path,
    *,
    base: str = "",
    dtype: Dtype = "BF16",
    like: Path | None = None,
) -> Path:
    """Write one GGUF file with a version's whole weights.

    Args:
        registry: where the version is.
        version: as for `export_merged`.
        target: the file to make.
        base: as for `export_merged`.
        dtype: the number format of matrices; vectors are float32.
        like: the GGUF whose tokenizer is carried over; the bundled model's when left out.

    Raises:
        UsageError: the model is no llama, the tokenizer is another, or the file is there already or cannot be written.
        MissingError: a package is missing.
    """
    from silva.train.registry.gguf_file import write_gguf

    if target.exists():
        raise UsageError(f"{target} is there already: name a file that is not, or remove it")
    source = _whole(registry, version, base)
    with TemporaryDirectory(prefix="silva-adapter-") as scratch:
        deltas = _deltas(registry, version, Path(scratch))
    tensors = (
        (name, added(tensor, deltas.get(name), "F32" if name in deltas else None))
        for file in source.weights
        for name, tensor in sorted(read_tensors(file).items())
    )
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_gguf(draft, source, tensors, dtype, like, version.name)
        draft.rename(target)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)
    return target


def added(tensor: Tensor, delta: tuple[Floats, Floats] | None, dtype: Dtype | None) -> Tensor:
    """A tensor of the base with what an adapter adds, in float32, rounded once to `dtype` (None: its own)."""
    if delta is None and dtype in (None, tensor.dtype):
        return tensor
    if delta is None and tensor.dtype not in _TORCH:
        return tensor
    array = values(tensor)
    if delta is not None:
        up, down = delta
        array = array + up @ down
    return stored(np.asarray(array, np.float32), dtype or tensor.dtype)


def _whole(registry: Registry, version: PolicyVersion, base: str) -> WeightsFolder:
    if version.kind == "full":
        return WeightsFolder(materialise(registry, version))
    return base_of(registry, version, base)


def _deltas(registry: Registry, version: PolicyVersion, scratch: Path) -> dict[str, tuple[Floats, Floats]]:
    if version.kind != "adapter":
        return {}
    return LoraAdapter(WeightsFolder(materialise(registry, version, scratch))).deltas()


def _set_json(file: Path, fields: dict[str, Any]) -> None:
    """Set fields of a JSON file; None takes one away."""
    whole = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    for name, value in fields.items():
        if value is None:
            whole.pop(name, None)
        elif isinstance(value, dict):
            whole[name] = {**whole.get(name, {}), **value}
        else:
            whole[name] = value
    file.write_bytes(msgspec.json.format(msgspec.json.encode(whole), indent=2))
