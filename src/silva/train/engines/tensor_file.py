"""Tensors to a safetensors file, so that what the disk refuses is an OSError like any other."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

_NUMBER = re.compile(r"os error (\d+)")


def write_tensors(tensors: Mapping[str, Tensor], file: Path, told: Mapping[str, str] | None = None) -> None:
    """Write tensors, each contiguous and on its own, and in the file's metadata what is `told` of them. The same is
    written as the same bytes.

    Raises:
        OSError: the disk refused.
    """
    whole = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(whole, file, metadata={"format": "pt", **(told or {})})
    except SafetensorError as error:
        number = _NUMBER.search(str(error))
        raise OSError(int(number[1]) if number else errno.EIO, " ".join(str(error).split())) from error
    if told:
        _ordered(file)


def _ordered(file: Path) -> None:
    """Bring the metadata into order, which safetensors writes in another one every time."""
    with file.open("r+b") as opened:
        size = int.from_bytes(opened.read(8), "little")
        header = json.loads(opened.read(size))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        if len(text) > size:
            raise OSError(errno.EIO, f"{file.name}: its header of {size} bytes cannot be put in order")
        opened.seek(8)
        opened.write(text.ljust(size))
