"""Embedding: texts to vectors whose cosine says how much alike they are.

"hashed" ─▶ words and their pieces, hashed (no weights)          ─┐
"minilm" ─▶ all-MiniLM-L6-v2 from a package's weights            ─┼─▶ Embedder ─▶ float32 [texts, size], unit rows
"http://…/v1#NAME", "openai:NAME" ─▶ an endpoint's /embeddings   ─┘
"""

from __future__ import annotations

from silva.errors import UsageError
from silva.models.embedding.embedder import Embedder
from silva.models.embedding.hashed import Hashed

EMBEDDERS = "hashed, minilm, http://HOST:PORT/v1#NAME, openai:NAME"


def open_embedder(spec: str) -> Embedder:
    """The embedder that `spec` names.

    Raises:
        UsageError: it names none.
        MissingError: the package that holds its weights is not installed.
    """
    if spec == "hashed":
        return Hashed()
    if spec == "minilm":
        from silva.models.embedding.minilm import MiniLM

        return MiniLM()
    if spec.startswith(("http://", "https://", "openai:")):
        from silva.models.embedding.served import ServedEmbedder

        return ServedEmbedder(spec)
    raise UsageError(f"embedder {spec!r} is not known; possible are {EMBEDDERS}")


__all__ = ["EMBEDDERS", "Embedder", "open_embedder"]
