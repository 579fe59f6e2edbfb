"""A folder of weights on this machine: what it holds, which base it is, and which of its files belong to a version.

    adapter_config.json + adapter_model.safetensors ─▶ adapter
    config.json + *.safetensors (+ tokenizer, template) ─▶ full

Other files (an optimiser's state, a read-me) are left where they are.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import msgspec

from silva.errors import UsageError
from silva.train.registry.tensors import Shapes, read_shapes

ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
CONFIG = "config.json"
BUNDLED = "local"
"""Names the bundled model's weights where a folder may be given."""

_BESIDE = (
    *("config.json", "generation_config.json", "model.safetensors.index.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "vocab.txt", "merges.txt", "tokenizer.model", "chat_template.jinja", "chat_template.json"),
)


class WeightsFolder:
    """A folder, looked at.

    Raises:
        UsageError: it holds neither an adapter nor weights, or pickled ones.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_dir():
            raise UsageError(f"{path} is no folder of weights: give a PEFT folder or a Hugging Face folder")
        self.kind: Literal["adapter", "full"] = "adapter" if (path / ADAPTER_CONFIG).is_file() else "full"
        if self.kind == "adapter":
            self.weights = [path / ADAPTER_WEIGHTS]
            others = [path / ADAPTER_CONFIG]
        else:
            self.weights = sorted(file for file in path.glob("*.safetensors") if file.name != ADAPTER_WEIGHTS)
            others = [path / name for name in _BESIDE if (path / name).is_file()]
        if not all(file.is_file() for file in self.weights) or not self.weights:
            pickled = any(path.glob("*.bin")) or any(path.glob("*.pt"))
            hint = "its weights are pickled: save them as safetensors" if pickled else "it has no safetensors file"
            raise UsageError(f"{path.name} holds no weights that can be kept: {hint}")
        if self.kind == "full" and not (path / CONFIG).is_file():
            raise UsageError(f"{path.name} has weights but no {CONFIG}: give the folder that save_pretrained wrote")
        self.files = [*others, *self.weights]

    def shapes(self) -> Shapes:
        """Names and shapes of all tensors.

        Raises:
            UsageError: a file is no safetensors file.
        """
        found: Shapes = {}
        for file in self.weights:
            found.update(read_shapes(file))
        return found

    def digest(self) -> str:
        """Which weights these are, 12 hex digits: the blake2b of the weight files in the order of their names. For one
        file it is the digest in the bundled model's policy version."""
        running = hashlib.blake2b(digest_size=6)
        for file in self.weights:
            with file.open("rb") as opened:
                while chunk := opened.read(1 << 20):
                    running.update(chunk)
        return running.hexdigest()

    def config(self) -> dict[str, object]:
        """The folder's `config.json` or `adapter_config.json`.

        Raises:
            UsageError: it is no JSON object.
        """
        file = self.files[0] if self.kind == "adapter" else self.path / CONFIG
        try:
            return msgspec.json.decode(file.read_bytes(), type=dict[str, object])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{self.path.name}/{file.name} cannot be read: {error}") from error


def base_folder(given: str) -> WeightsFolder:
    """The folder of a base, by path, or the bundled model's weights for `local`.

    Raises:
        UsageError: it is none, or an adapter.
        MissingError: the bundled weights are not installed.
    """
    if given == BUNDLED:
        from silva.models.bundled import weights_folder

        return WeightsFolder(weights_folder())
    folder = WeightsFolder(Path(given))
    if folder.kind == "adapter":
        raise UsageError(f"{folder.path.name} is an adapter: a base is a folder with whole weights")
    return folder


def base_name(given: str, folder: WeightsFolder) -> str:
    """What a base is called where nobody says: the bundled model by its name, others by their folder."""
    if given == BUNDLED:
        from silva.models.local import MODEL

        return MODEL
    return folder.path.resolve().name
