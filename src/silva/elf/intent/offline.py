"""The planner without a model: frame, asked tools, chain. It plans what it has understood whole, or not at all."""

from __future__ import annotations

import re
from collections.abc import Mapping

from silva.elf.intent.asked import Asked, Vocabulary, names
from silva.elf.intent.chaining import WRITERS, Chain
from silva.elf.intent.conditions import moment
from silva.elf.intent.frame import Frame
from silva.elf.intent.framing import framed
from silva.elf.intent.known import Known
from silva.elf.intent.settings import Filling
from silva.elf.intent.words import Concept, concepts
from silva.elf.missing import MISSING
from silva.elf.plan import Plan
from silva.elf.tool import Card
from silva.errors import UsageError

MOST_CHARS = 4_000
"""Characters of an intent."""
_NEAR = 3.0
"""BM25 score from which a card is named as near."""
_GENERIC = frozenset(
    ("write-rows", "read-rows", "choose-trajectories", "measure-trajectories", "take-rows", "filter-rows")
)
_SAID = """
trajectory row run dataset sample environment file page turn text lake report success score safety per risk
judge use quality train redteam secret fail why strategy check healthy valuable list best worst keep random
remove search write describe
"""
_NOUNS = frozenset(_SAID.split())
"""Concepts that are no order by themselves: what is left of them was said about something else."""


class OfflinePlanner:
    """Plans by the cards of tools alone.

    Args:
        cards: of all tools.
    """

    name = "offline"

    def __init__(self, cards: Mapping[str, Card]) -> None:
        self._cards = cards
        self._vocabulary = Vocabulary(cards)

    def plan(self, intent: str, known: Known, now: float | None = None) -> Plan:
        """The plan of an intent, with questions where something must be said first.

        Args:
            intent: in plain words.
            known: what there is.
            now: the moment that "last week" counts from, in Unix seconds.

        Raises:
            UsageError: it is not understood, or needs what no tool can.
        """
        words = " ".join(intent.split())
        if not words:
            raise UsageError("an intent is needed: say what to do with which data")
        if len(words) > MOST_CHARS:
            raise UsageError(
                f"the intent has {len(words):,} characters, at most {MOST_CHARS:,} are read; say less, or give a plan"
            )
        frame = framed(words, known, moment() if now is None else now)
        said = concepts(frame.left, self._vocabulary.words)
        asked, free = self._vocabulary.asked(said)
        self._refuse(words, asked, free, frame)
        tools = self._meant(names(asked), frame, said)
        filling = Filling(frame, known.runs)
        chain = Chain(self._cards, filling)
        for name in tools:
            self._put(chain, name, frame)
        self._end(chain, frame, tools)
        notes = (*frame.notes, *filling.notes)
        return Plan(
            intent=intent,
            steps=tuple(chain.steps),
            planner=self.name,
            notes=notes,
            asks=tuple(dict.fromkeys(filling.asks)),
        )

    def _refuse(self, words: str, asked: list[Asked], free: list[Concept], frame: Frame) -> None:
        """Refuse what no tool can, and what was not understood."""
        instead = {f"!{each.name}": each for each in MISSING}
        for each in asked:
            if each.tool in instead:
                missing = instead[each.tool]
                raise UsageError(f"capability missing: {missing.name} ({each.by[0].word}): {missing.instead}")
        orders = [each for each in free if each.leads and not each.known and each.name not in _NOUNS]
        if orders:
            near = self._nearest(orders[0].word)
            raise UsageError(f"capability missing: no tool can {orders[0].word!r}{near}; see silva elf tools")
        if not asked and not self._says_something(frame, free):
            raise UsageError(f"not understood: {words[:120]!r}{self._nearest(words)}; say what to do with which data")

    def _says_something(self, frame: Frame, free: list[Concept]) -> bool:
        """Whether a source and what is to come of it are said, with no verb that a tool has."""
        verbs = {each.name for each in free}
        return bool(
            frame.sql
            or frame.codes
            or frame.output
            or frame.form
            or (verbs & {"list", "write", "search", "select", "best", "keep"})
        ) and bool(
            frame.condition
            or frame.runs
            or frame.files
            or frame.sql
            or frame.codes
            or frame.unknown
            or verbs & {"trajectory", "run", "row"}
        )

    def _nearest(self, words: str) -> str:
        found = [name for score, name in self._vocabulary.near(words) if score >= _NEAR]
        return f" (near: {', '.join(found)})" if found else ""

    def _meant(self, tools: list[str], frame: Frame, said: list[Concept]) -> list[str]:
        """The tools that are meant, by what is said of them together."""
        spoken = {each.name for each in said}
        text = frame.said.lower()
        meant = list(tools)
        if frame.sql:
            return ["query-sql"]
        if "list-runs" in meant and (frame.where or frame.envs or frame.runs):
            meant[meant.index("list-runs")] = "list-trajectories"
        if "compare-runs" in meant and len(frame.runs) < 2 and len(frame.files) >= 2:
            meant[meant.index("compare-runs")] = "overlap"
        if {"check-leaks", "overlap"} <= set(meant):
            meant.remove("overlap")
        if "check-leaks" in meant and len(frame.files) < 2 and not re.search(r"leak", text):
            meant.remove("check-leaks")
        if frame.sample_form and "write-samples" not in meant:
            meant.append("write-samples")
        if "write-samples" in meant:
            meant = [each for each in meant if each not in ("write-rows", "export-trajectories")]
        if frame.tree_form and not {"export-trajectories", "import-trajectories"} & set(meant):
            meant = [each for each in meant if each != "write-rows"] + ["export-trajectories"]
        if frame.form and "export-trajectories" in meant and not frame.tree_form:
            meant[meant.index("export-trajectories")] = "write-rows"
        if "export-trajectories" in meant and not frame.tree_form and frame.output and frame.form:
            meant[meant.index("export-trajectories")] = "write-rows"
        if frame.best and not {"select-rows", "sort-rows"} & set(meant):
            meant.append("select-rows")
        if frame.scorers and not {"score-rows"} & set(meant):
            meant.insert(0, "score-rows")
        if frame.drawn and "take-rows" not in meant:
            meant.append("take-rows")
        if frame.factor and "upsample-set" not in meant and re.search(r"as (?:often|much|many|heavily)", text):
            meant.append("upsample-set")
        meant = [
            each
            for each in meant
            if not (each in _GENERIC and each != "write-rows" and len(meant) > 1) or each in self._wanted(frame)
        ]
        if not meant:
            meant = ["list-trajectories"] if self._lists(spoken, frame) else []
        return list(dict.fromkeys(meant))

    def _wanted(self, frame: Frame) -> set[str]:
        return {"take-rows"} if frame.drawn else set()

    def _lists(self, spoken: set[str], frame: Frame) -> bool:
        """Whether trajectories are to be looked at, and nothing to be written."""
        return not (frame.output or frame.form or "write" in spoken or frame.files or frame.unknown)

    def _put(self, chain: Chain, name: str, frame: Frame) -> None:
        if name not in self._cards:
            return
        card = self._cards[name]
        if name == "write-rows":  # the generic "save": of what is there by then
            return
        if name == "take-rows" and not frame.count:
            return
        if name == "filter-rows" and not frame.rows:
            return
        if name == "select-rows" and "score-rows" in self._cards and not chain.has("scores"):
            chain.add("score-rows")
        takes = {each.kind for each in card.inputs.values()}
        if "trajectories" in takes and not chain.has("trajectories") and frame.files[:1] and ".jsonl" in frame.files[0]:
            chain.add("read-set", path=frame.files[0])
        chain.add(name)

    def _end(self, chain: Chain, frame: Frame, tools: list[str]) -> None:
        """The bound on rows, and the file that is asked for."""
        shaped = [step.tool for step in chain.steps]
        writes = "write-rows" in tools or frame.output or frame.form or not chain.steps
        if not chain.steps:
            chain.add("read-rows")
            shaped = [step.tool for step in chain.steps]
        if frame.count and chain.kind == "rows" and not {"take-rows", "select-rows"} & set(shaped):
            if len(shaped) > 1:
                chain.change("read-rows", count=None)
                chain.add("take-rows", count=frame.count)
        elif {"take-rows", "select-rows"} & set(shaped):
            chain.change("read-rows", count=None)
        if writes and chain.kind in WRITERS and WRITERS[chain.kind] in self._cards:
            chain.add(WRITERS[chain.kind])
