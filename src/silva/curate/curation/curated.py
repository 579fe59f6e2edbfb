"""What a curation gave, checked against the corpus it was given: rows to imitate, tasks to practise, texts to remember.

A row names a walk of the corpus and turns of it, so whatever is trained on was said there. What names a walk or a turn
that is not there, holds the words of a held-out task, or is more than the corpus could give, is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from silva.curate.curation.corpus import Corpus
from silva.errors import SilvaError
from silva.rollout.skills.skill import LONGEST_BODY, LONGEST_DESCRIPTION
from silva.tree import Record, digest

MOST_TIMES = 8
"""Rows of a curation, for each walk of its corpus."""
MOST_MEMORIES = 10_000
LONGEST_WORDS = 20_000
_LEAST_WORDS = 12
"""Shorter texts than this may stand in any text by chance."""


class CurationError(SilvaError):
    """A curation that cannot be used; the message says what it did, and what to do."""


class SftRow(Record, frozen=True, kw_only=True):
    """A walk to imitate: its `turns` in order, by number, those with `loss`, and what it is asked (`words`), where that
    differs from what it was asked."""

    walk: str
    turns: tuple[int, ...]
    loss: tuple[int, ...]
    words: str = ""


class RlRow(Record, frozen=True, kw_only=True):
    """A task to practise, and the walk of the corpus for which it was chosen."""

    task: str
    walk: str = ""


class Memory(Record, frozen=True, kw_only=True):
    """A text for tasks that are like `when`; tasks that do not say the word `says` are not given it. `walks` are those
    it comes from."""

    when: str
    text: str
    says: str = ""
    walks: tuple[str, ...] = ()


class Curated(Record, frozen=True, kw_only=True):
    """What a curation gave."""

    sft: tuple[SftRow, ...] = ()
    rl: tuple[RlRow, ...] = ()
    memory: tuple[Memory, ...] = ()

    @property
    def digest(self) -> str:
        """Of all of it: what is trained on and remembered is the same where this is."""
        return digest("curated", msgspec.json.encode(self))

    def without(self, *outputs: str) -> Curated:
        """It, with some of `sft`, `rl` and `memory` left out."""
        return msgspec.structs.replace(self, **{name: () for name in outputs})


def checked(answer: bytes, corpus: Corpus, held_out: Collection[str] = (), name: str = "curation") -> Curated:
    """What a curation printed, as rows.

    Args:
        answer: JSON.
        corpus: that it was given.
        held_out: ids and words of tasks that nothing may be made of.
        name: what messages call it.

    Raises:
        CurationError: it is of another form, names what the corpus does not hold, holds what is held out, or is empty.
    """
    try:
        made = msgspec.json.decode(answer, type=Curated)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CurationError(
            f"{name}: returns no curated data ({error}); return output(sft=…, rl=…, memory=…) with rows as "
            "docs/guides/curateevo.md says"
        ) from error
    walks = {walk["id"]: walk for walk in corpus.walks}
    most = MOST_TIMES * len(walks)
    if len(made.sft) + len(made.rl) > most or len(made.memory) > MOST_MEMORIES:
        raise CurationError(
            f"{name}: returns {len(made.sft) + len(made.rl)} rows of {len(walks)} walks; at most {most}"
        )
    if not made.sft and not made.rl:
        raise CurationError(f"{name}: drops everything: nothing of {len(walks)} walks is left to train on")
    hidden = {_plain(each) for each in held_out}
    long = [each for each in hidden if len(each) >= _LEAST_WORDS]
    tasks = {str(walk["task"]) for walk in walks.values()}
    for place, row in enumerate(made.sft, 1):
        _sft(f"{name}: sft row {place}", row, walks)
        _not_held(f"{name}: sft row {place}", (row.words,), hidden, ())
    for place, row in enumerate(made.rl, 1):
        if row.task not in tasks or _plain(row.task) in hidden:
            raise CurationError(
                f"{name}: rl row {place}: task {row.task[:80]!r} is none of the corpus; it may be a test's"
            )
        if row.walk and row.walk not in walks:
            raise CurationError(f"{name}: rl row {place}: the corpus has no walk {row.walk[:40]!r}")
    for place, each in enumerate(made.memory, 1):
        at = f"{name}: memory {place}"
        if not 0 < len(each.when.strip()) <= LONGEST_DESCRIPTION or not 0 < len(each.text.strip()) <= LONGEST_BODY:
            raise CurationError(f"{at}: `when` has 1 to {LONGEST_DESCRIPTION} characters, `text` 1 to {LONGEST_BODY}")
        _not_held(at, (each.when, each.text), hidden, long)
    return made


def _sft(at: str, row: SftRow, walks: dict[str, dict[str, Any]]) -> None:
    walk = walks.get(row.walk)
    if walk is None:
        raise CurationError(f"{at}: the corpus has no walk {row.walk[:40]!r}; a row names one that it was given")
    known = {turn["n"] for turn in walk["turns"]}
    if not row.turns or list(row.turns) != sorted(set(row.turns)) or not set(row.turns) <= known:
        raise CurationError(f"{at}: turns {list(row.turns)[:8]} are not turns of walk {row.walk[:12]} in their order")
    if not row.loss or not set(row.loss) <= set(row.turns):
        raise CurationError(f"{at}: loss {list(row.loss)[:8]} names no turn, or one that the row leaves out")
    if len(row.words) > LONGEST_WORDS:
        raise CurationError(f"{at}: its words have {len(row.words)} characters, at most {LONGEST_WORDS}")


def _not_held(at: str, texts: Iterable[str], hidden: Collection[str], within: Iterable[str]) -> None:
    for text in map(_plain, texts):
        found = text if text in hidden else next((each for each in within if each in text), "")
        if found:
            raise CurationError(f"{at}: holds a held-out task ({found[:80]!r}); make rows of the corpus alone")


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
