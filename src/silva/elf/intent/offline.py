"""The planner without a model: frame, asked tools, chain. It plans what it has understood whole, or not at all."""

from __future__ import annotations

import re
from collections.abc import Mapping

from silva.elf.intent.asked import Asked, Vocabulary
from silva.elf.intent.chaining import WRITERS, Chain
from silva.elf.intent.conditions import moment
from silva.elf.intent.frame import Frame
from silva.elf.intent.framing import framed
from silva.elf.intent.known import Known
from silva.elf.intent.meaning import meant
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
        tools = meant(asked, frame, said)
        if not tools and self._lists(frame, said):
            tools = ["list-trajectories"]
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
        if said := re.match(r"(?:please |can you |could you )?(roll ?outs?|play|re-?run)\b", words, re.IGNORECASE):
            raise UsageError(f"capability missing: running agents ({said[1]}): silva rollout --env ENV")
        if orders:
            near = self._nearest(orders[0].word)
            raise UsageError(f"capability missing: no tool can {orders[0].word!r}{near}; see silva elf tools")
        if not asked and frame.runs and any(each.name == "remove" for each in free):
            raise UsageError(
                "capability missing: deleting from a lake: it forgets nothing; read what is left by a condition"
            )
        strange = [each for each in free if not each.known and each.name not in _NOUNS]
        if strange and {each.tool for each in asked} == {"write-rows"} and not (frame.output or frame.form):
            raise UsageError(f"not understood: {strange[0].word!r} in {words[:120]!r}; say what to do with which data")
        if not asked and not frame.files and not self._says_something(frame, free):
            raise UsageError(f"not understood: {words[:120]!r}{self._nearest(words)}; say what to do with which data")

    def _says_something(self, frame: Frame, free: list[Concept]) -> bool:
        """Whether a source and what is to come of it are said, with no verb that a tool has."""
        verbs = {each.name for each in free}
        if frame.sql or frame.codes:
            return True
        wanted = frame.output or frame.form or frame.rows or frame.count or frame.sample_form or frame.tree_form
        source = frame.condition or frame.runs or frame.files or frame.unknown or verbs & {"trajectory", "run", "row"}
        return bool(
            wanted or verbs & {"list", "write", "search", "select", "best", "keep", "row", "trajectory"}
        ) and bool(source)

    def _nearest(self, words: str) -> str:
        found = [name for score, name in self._vocabulary.near(words) if score >= _NEAR]
        return f" (near: {', '.join(found)})" if found else ""

    def _lists(self, frame: Frame, said: list[Concept]) -> bool:
        """Whether trajectories are to be looked at, and nothing to be written."""
        writes = frame.output or frame.form or any(each.name == "write" for each in said)
        return not (writes or frame.files or frame.unknown or frame.rows)

    def _put(self, chain: Chain, name: str, frame: Frame) -> None:
        if name not in self._cards:
            return
        card = self._cards[name]
        if name == "write-rows":  # the generic "save": of what is there by then
            return
        if name == "take-rows" and not frame.count:
            return
        if name == "filter-rows":  # a condition on rows is met where they are read
            if frame.rows and not chain.has("rows"):
                chain.add("read-rows")
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
        writes = "write-rows" in tools or frame.output or frame.form
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
