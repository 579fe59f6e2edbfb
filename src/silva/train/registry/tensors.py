"""Tensors of safetensors files without torch: shapes from the header, values as float32 arrays, numbers as they were
stored.

numpy knows no bfloat16, so values go through their bits: bfloat16 is the upper half of a float32.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from silva.errors import MissingError, UsageError

try:
    import safetensors
except ImportError as error:
    raise MissingError("weights of policy versions need the package safetensors: pip install 'silva[train]'") from error

Dtype: TypeAlias = Literal["F32", "F16", "BF16"]
Shapes: TypeAlias = dict[str, tuple[int, ...]]
Floats: TypeAlias = npt.NDArray[np.float32]

_NAMES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


class Tensor(NamedTuple):
    """One tensor as it is stored: its number format, its shape, its bytes in row order."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes | bytearray | memoryview


def read_shapes(file: Path) -> Shapes:
    """Names and shapes of a file's tensors; reads its header alone.

    Raises:
        UsageError: it cannot be read, or is no safetensors file.
    """
    try:
        with safetensors.safe_open(file, framework="np") as opened:
            return {name: tuple(opened.get_slice(name).get_shape()) for name in sorted(opened.keys())}
    except (OSError, safetensors.SafetensorError) as error:
        raise UsageError(f"{file.parent.name}/{file.name} cannot be read as safetensors: {_line(error)}") from error


def read_metadata(file: Path) -> dict[str, str]:
    """What a file says of its tensors.

    Raises:
        UsageError: as `read_shapes`.
    """
    try:
        with safetensors.safe_open(file, framework="np") as opened:
            return opened.metadata() or {}
    except (OSError, safetensors.SafetensorError) as error:
        raise UsageError(f"{file.parent.name}/{file.name} cannot be read as safetensors: {_line(error)}") from error


def read_tensors(file: Path) -> dict[str, Tensor]:
    """All tensors of a file, in memory.

    Raises:
        UsageError: it cannot be read, or is no safetensors file.
    """
    try:
        found = safetensors.deserialize(file.read_bytes())
    except (OSError, safetensors.SafetensorError) as error:
        raise UsageError(f"{file.parent.name}/{file.name} cannot be read as safetensors: {_line(error)}") from error
    return {name: Tensor(each["dtype"], tuple(each["shape"]), each["data"]) for name, each in found}


def write_tensors(file: Path, tensors: dict[str, Tensor]) -> None:
    """Write a safetensors file that transformers loads. Tensors may be of any format that was read, or of `Dtype`.

    Raises:
        OSError: it cannot be written.
    """
    held = {name: np.frombuffer(tensor.data, np.uint8) for name, tensor in tensors.items()}  # alive while it is written
    specs = {
        name: safetensors.TensorSpec(
            dtype=_NAMES.get(tensor.dtype, tensor.dtype.lower()),
            shape=list(tensor.shape),
            data_ptr=held[name].ctypes.data,
            data_len=held[name].nbytes,
        )
        for name, tensor in tensors.items()
    }
    try:
        safetensors.serialize_file(specs, file, {"format": "pt"})
    except safetensors.SafetensorError as error:
        raise OSError(_line(error)) from error


def values(tensor: Tensor) -> Floats:
    """A tensor's numbers as float32, in its shape.

    Raises:
        UsageError: it is quantised, or of integers.
    """
    if tensor.dtype == "F32":
        flat = np.frombuffer(tensor.data, np.float32)
    elif tensor.dtype == "F16":
        flat = np.frombuffer(tensor.data, np.float16).astype(np.float32)
    elif tensor.dtype == "BF16":
        flat = (np.frombuffer(tensor.data, np.uint16).astype(np.uint32) << 16).view(np.float32)
    else:
        raise UsageError(
            f"tensors of format {tensor.dtype} cannot be computed with: save the weights as bf16, f16 or f32"
        )
    return flat.reshape(tensor.shape)


def stored(array: Floats, dtype: str) -> Tensor:
    """A float32 array as a tensor of a `Dtype`, rounded to the nearest, ties to even."""
    shape = tuple(array.shape)
    if dtype == "F32":
        return Tensor(dtype, shape, np.ascontiguousarray(array, np.float32).tobytes())
    if dtype == "F16":
        return Tensor(dtype, shape, array.astype(np.float16).tobytes())
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return Tensor("BF16", shape, np.where(np.isnan(array), 0x7FC0, rounded).astype(np.uint16).tobytes())


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
