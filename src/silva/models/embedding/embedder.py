"""What an embedder is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Texts to vectors. `name` says which it is; `digest` changes whenever its vectors might, so that what is kept of
    one is never taken for another's."""

    @property
    def name(self) -> str:
        """Which embedder it is."""
        ...

    @property
    def digest(self) -> str:
        """Of its code and weights, in hex."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text: float32 [texts, size], every row of length 1; all zeros for a text that says nothing.

        Raises:
            ModelError: an endpoint gave none.
        """
        ...


def unit(vectors: Vectors) -> Vectors:
    """The vectors at length 1; those of length 0 stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
