"""Search in a corpus that comes with Silva: short entries, each one line of `corpus.txt`, ranked by BM25."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from silva.envs.gyms.files.tools.instrument import Bench
from silva.errors import UsageError

CORPUS = Path(__file__).parent.parent / "corpus.txt"


def search(bench: Bench, query: str, most: int = 3) -> list[dict[str, Any]]:
    """Search the almanac (towns, materials, people) by words: the best entries, each with its title and text."""
    import bm25s

    if not query.strip():
        raise UsageError("search: the query is empty")
    entries = articles()
    words = bm25s.tokenize([query], stopwords="en", show_progress=False)
    try:
        found, scores = _index().retrieve(words, k=max(1, min(most, 10)), show_progress=False)
    except ValueError:
        return []
    return [
        {"title": entries[int(place)][0], "text": entries[int(place)][1]}
        for place, score in zip(found[0], scores[0], strict=True)
        if float(score) > 0
    ]


@lru_cache(maxsize=1)
def articles() -> tuple[tuple[str, str], ...]:
    """The corpus: titles and texts."""
    lines = CORPUS.read_text(encoding="utf-8").splitlines()
    return tuple((title, text.strip()) for title, _, text in (line.partition("\t") for line in lines) if text)


@lru_cache(maxsize=1)
def _index() -> Any:
    import bm25s

    made = bm25s.BM25()
    texts = [f"{title} {text}" for title, text in articles()]
    made.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)
    return made
