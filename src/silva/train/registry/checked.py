"""What of a folder becomes a version, once it is found to fit the base: whose weights, which shapes, finite numbers.

An adapter's config is kept without the path it was trained at: it names the base, and reads the same wherever it was
made.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from silva.errors import UsageError
from silva.train.registry.lora import LoraAdapter
from silva.train.registry.tensors import Shapes, read_tensors, values
from silva.train.registry.version import Base
from silva.train.registry.weights import ADAPTER_CONFIG, WeightsFolder


def checked_files(
    path: Path, base: Base, shapes: Shapes
) -> tuple[Literal["adapter", "full"], dict[str, Callable[[], bytes]]]:
    """The kind of a folder, and how to read each of its files.

    Args:
        path: a PEFT folder or a Hugging Face folder.
        base: what it must belong to.
        shapes: names and shapes of the base's tensors.

    Raises:
        UsageError: it does not fit, is no such folder, or holds values that are no finite numbers.
    """
    folder = WeightsFolder(path)
    contents: dict[str, Callable[[], bytes]] = {file.name: file.read_bytes for file in folder.files}
    if folder.kind == "adapter":
        adapter = LoraAdapter(folder)
        adapter.check(base, shapes)
        adapter.deltas()
        config = _portable(folder, base)
        contents[ADAPTER_CONFIG] = lambda: config
    else:
        _check_full(folder, base, shapes)
    return folder.kind, contents


def _portable(folder: WeightsFolder, base: Base) -> bytes:
    config = folder.config()
    config["base_model_name_or_path"] = base.name
    targets = config.get("target_modules")
    if isinstance(targets, list):  # peft writes a set, in another order every time
        config["target_modules"] = sorted(targets)
    return msgspec.json.format(msgspec.json.encode(config, order="sorted"), indent=2)


def _check_full(folder: WeightsFolder, base: Base, shapes: Shapes) -> None:
    name, mine = folder.path.name, folder.shapes()
    for key in sorted(mine.keys() | shapes.keys()):
        if mine.get(key) != shapes.get(key):
            has = f"has shape {list(mine[key])}" if key in mine else "is missing"
            wants = f"needs {list(shapes[key])}" if key in shapes else "has none of that name"
            raise UsageError(f"weights {name}: {key} {has}, the base {base.label} {wants}")
    for file in folder.weights:
        for key, tensor in read_tensors(file).items():
            if not np.isfinite(values(tensor)).all():
                raise UsageError(f"weights {name}: {key} holds values that are not finite numbers")
