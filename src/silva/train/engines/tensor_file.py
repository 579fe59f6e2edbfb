"""Tensors to a safetensors file, so that what the disk refuses is an OSError like any other."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

_NUMBER = re.compile(r"os error (\d+)")


def write_tensors(tensors: Mapping[str, Tensor], file: Path, told: Mapping[str, str] | None = None) -> None:
    """Write tensors, each contiguous and on its own, and in the file's metadata what is `told` of them.

    Raises:
        OSError: the disk refused.
    """
    whole = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(whole, file, metadata={"format": "pt", **(told or {})})
    except SafetensorError as error:
        number = _NUMBER.search(str(error))
        raise OSError(int(number[1]) if number else errno.EIO, " ".join(str(error).split())) from error
