"""Scoring: which samples a scorer has to be asked about, in what pieces, and what it says of all of them.

    samples ─▶ lacking what it needs (told why) │ known already (same words, same identity) │ asked, in batches, kept
    at once parts first, then what is made of them

A scorer that fails on a batch ends the scoring with its one line; what was kept until then is there the next time.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from silva.curate.value.cache import ScoreCache
from silva.curate.value.sample import Sample, Samples
from silva.curate.value.scorer import AnyScorer, Floats, Need, Score, Scorer, SetScorer, finite, make
from silva.errors import UsageError

BATCH = 32
"""Samples a scorer that is kept is asked about at once: what a kill may lose."""
PIECE = 8192
"""Samples that rules are asked about at once."""

Told = Callable[[str, int, int], None]
"""Told how it goes: a scorer's name, how many samples are done, of how many."""


@dataclass(slots=True)
class Scores:
    """What a scorer said of all samples. `values` are NaN where it said nothing, `worth` the same so that more is worth
    more; `notes` the reasons and remarks, by place. `known` were kept from before, `asked` were asked about in
    `seconds` of wall time."""

    name: str
    identity: str
    values: Floats
    worth: Floats
    notes: dict[int, str] = field(default_factory=dict[int, str])
    known: int = 0
    asked: int = 0
    seconds: float = 0.0

    @property
    def unscored(self) -> Counter[str]:
        """The reasons why samples have no score, and how often."""
        return Counter(self.notes.get(int(place), "no score") for place in np.flatnonzero(np.isnan(self.values)))

    @property
    def remarks(self) -> Counter[str]:
        """What was remarked of samples that have one."""
        return Counter(note for place, note in self.notes.items() if not np.isnan(self.values[place]))


def resolve(names: Sequence[str], options: Mapping[str, Mapping[str, Any]]) -> list[Scorer | SetScorer]:
    """The scorers of these names and their parts, parts first, each once and checked.

    Raises:
        SilvaError: there is no such scorer, options are for none of them, or one cannot score here.
    """
    made: dict[str, Scorer | SetScorer] = {}

    def add(name: str) -> None:
        if name not in made:
            found = make(name, options.get(name))
            for part in found.parts if isinstance(found, SetScorer) else ():
                add(part)
            made[name] = found

    for name in names:
        add(name)
    for name in options:
        if name not in made:
            raise UsageError(f"options.{name}: no scorer of that name is asked; asked are {', '.join(made)}")
    for each in made.values():
        each.check()
    return list(made.values())


def score(
    samples: Samples,
    scorers: Sequence[Scorer | SetScorer],
    folder: Path | None,
    workers: int | None = None,
    told: Told | None = None,
) -> dict[str, Scores]:
    """Score samples.

    Args:
        samples: what to score.
        scorers: in an order in which parts come first, as `resolve` gives them.
        folder: where scores are kept; None keeps none.
        workers: processes for scorers that may run apart; all cores if None.
        told: hears how it goes.

    Raises:
        SilvaError: a scorer cannot go on.
    """
    made: dict[str, Scores] = {}
    for each in scorers:
        began = time.perf_counter()
        if isinstance(each, SetScorer):
            said = [finite(one) for one in each.score(samples, {part: made[part].worth for part in each.parts})]
            result = _empty(each, len(samples))
            result.asked = len(samples)
            _fill(result, range(len(samples)), said)
        else:
            result = _single(samples, each, folder, workers, told)
        result.worth = each.worth(result.values)
        result.seconds = time.perf_counter() - began
        made[each.name] = result
    return made


@dataclass(slots=True)
class Due:
    """What a scorer has to be asked: places by the key of their words, of which each is asked once."""

    lacking: dict[int, str] = field(default_factory=dict[int, str])
    known: dict[int, Score] = field(default_factory=dict[int, Score])
    asked: dict[str, list[int]] = field(default_factory=dict[str, list[int]])


def due(samples: Samples, scorer: Scorer, folder: Path | None) -> Due:
    """What is known of samples, and what has to be asked. Nothing is computed, and nothing written but an empty
    file."""
    found = Due()
    keys: dict[str, list[int]] = {}
    for piece in _pieces(range(len(samples)), PIECE):
        for place, sample in zip(piece, samples.at(piece), strict=True):
            why = scorer.lacking(sample)
            if why:
                found.lacking[place] = why
            else:
                key = sample.key if scorer.kept else str(place)
                keys.setdefault(key, []).append(place)
    if scorer.kept and folder is not None and keys:
        cache = ScoreCache(folder, scorer.name, scorer.identity())
        try:
            for key, kept in cache.known(list(keys)).items():
                found.known.update(dict.fromkeys(keys.pop(key), kept))
        finally:
            cache.close()
    found.asked = keys
    return found


def _single(samples: Samples, scorer: Scorer, folder: Path | None, workers: int | None, told: Told | None) -> Scores:
    result = _empty(scorer, len(samples))
    if not scorer.kept and scorer.need is not Need.TRAJECTORY:
        _unkept(samples, scorer, result, workers, told)
        return result
    todo = due(samples, scorer, folder)
    result.notes.update(todo.lacking)
    _fill(result, todo.known, todo.known.values())
    result.known = len(todo.known)
    keys = list(todo.asked)
    cache = ScoreCache(folder, scorer.name, scorer.identity()) if scorer.kept and folder is not None and keys else None
    try:
        done = 0
        for part in _pieces(_by_length(samples, todo), BATCH):
            said = _asked(scorer, samples.at([todo.asked[key][0] for key in part]))
            for key, one in zip(part, said, strict=True):
                _fill(result, todo.asked[key], [one] * len(todo.asked[key]))
            if cache is not None:
                cache.add(zip(part, said, strict=True))
            done += len(part)
            if told is not None:
                told(scorer.name, done, len(keys))
    finally:
        if cache is not None:
            cache.close()
    result.asked = len(keys)
    return result


def _by_length(samples: Samples, todo: Due) -> list[str]:
    """Keys in an order in which neighbours are of about one length: what is computed together should be."""
    import pyarrow.compute as pc

    lengths = pc.binary_length(samples.table.column("answer")).to_pylist()  # pyright: ignore[reportAttributeAccessIssue]
    return sorted(todo.asked, key=lambda key: (lengths[todo.asked[key][0]] or 0, todo.asked[key][0]))


def _unkept(samples: Samples, scorer: Scorer, result: Scores, workers: int | None, told: Told | None) -> None:
    """Ask about everything, in pieces; in several processes where that pays."""
    pieces = _pieces(range(len(samples)), PIECE)
    count = workers or os.cpu_count() or 1
    result.asked = len(samples)
    done = 0
    if not scorer.apart or count < 2 or len(samples) <= PIECE or samples.rows:
        spoken: Iterator[list[Score]] = (_whole(scorer, samples.at(piece)) for piece in pieces)
        for piece, said in zip(_pieces(range(len(samples)), PIECE), spoken, strict=True):
            _fill(result, piece, said)
            done += len(piece)
            if told is not None:
                told(scorer.name, done, len(samples))
        return
    options = scorer.options.model_dump(mode="json")
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        tables = [samples.table.slice(piece[0], len(piece)) for piece in pieces]
        for piece, (values, notes) in zip(
            _pieces(range(len(samples)), PIECE),
            pool.map(_apart, [(scorer.name, options, table) for table in tables]),
            strict=True,
        ):
            result.values[piece[0] : piece[0] + len(piece)] = values
            result.notes.update((piece[0] + place, note) for place, note in notes.items())
            done += len(piece)
            if told is not None:
                told(scorer.name, done, len(samples))


def _apart(work: tuple[str, dict[str, Any], Any]) -> tuple[Floats, dict[int, str]]:
    name, options, table = work
    made = make(name, options)
    assert isinstance(made, Scorer)
    samples = Samples(table)
    result = _empty(made, len(samples), identity="")
    _fill(result, range(len(samples)), _whole(made, samples.at(range(len(samples)))))
    return result.values, result.notes


def _whole(scorer: Scorer, samples: Sequence[Sample]) -> list[Score]:
    """What a scorer says of samples, of which some may lack what it needs."""
    lacking = [scorer.lacking(each) for each in samples]
    able = [each for each, why in zip(samples, lacking, strict=True) if not why]
    said = iter(_asked(scorer, able) if able else ())
    return [Score(None, why) if why else next(said) for why in lacking]


def _asked(scorer: Scorer, samples: Sequence[Sample]) -> list[Score]:
    said = [finite(each) for each in scorer.score(samples)]
    if len(said) != len(samples):
        raise UsageError(f"scorer {scorer.name}: said {len(said)} scores of {len(samples)} samples, not one of each")
    return said


def _fill(result: Scores, places: Any, said: Any) -> None:
    for place, each in zip(places, said, strict=True):
        if each.value is not None:
            result.values[place] = each.value
        if each.note:
            result.notes[place] = each.note


def _empty(scorer: AnyScorer, count: int, identity: str | None = None) -> Scores:
    values = np.full(count, np.nan)
    return Scores(scorer.name, scorer.identity() if identity is None else identity, values, values)


def _pieces(places: Any, size: int) -> Iterator[list[Any]]:
    listed = list(places)
    for begin in range(0, len(listed), size):
        yield listed[begin : begin + size]
