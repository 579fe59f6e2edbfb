"""From the tools that are asked for to steps, by the types of their artefacts.

A tool takes the latest artefact of a type that an earlier step gives; where no step gives it, the tool that makes it is
put in before (`MAKERS`), and so on back to what reads. Filters and bounds that no tool took become steps of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from silva.elf.intent.settings import Filling
from silva.elf.plan import Step
from silva.elf.tool import Card

MAKERS = {
    "rows": "read-rows",
    "trajectories": "choose-trajectories",
    "findings": "audit-rows",
    "scores": "score-rows",
    "parts": "split-set",
    "pairs": "make-pairs",
    "table": "list-trajectories",
    "figures": "summarise-run",
    "skills": "extract-skills",
}
"""Which tool gives an artefact that nobody has asked for by name."""

WRITERS = {
    "rows": "write-rows",
    "table": "write-table",
    "scores": "write-scores",
    "figures": "write-figures",
    "trajectories": "write-set",
    "parts": "write-parts",
    "pairs": "write-pairs",
    "findings": "write-findings",
    "result": "write-result",
}
"""Which tool writes which artefact."""


class Chain:
    """Steps that grow at their end.

    Args:
        cards: of all tools.
        filling: the settings.
    """

    def __init__(self, cards: Mapping[str, Card], filling: Filling) -> None:
        self._cards, self._filling = cards, filling
        self.steps: list[Step] = []
        self._latest: dict[str, str] = {}

    def has(self, kind: str) -> bool:
        """Whether a step gives an artefact of that type."""
        return kind in self._latest

    def uses(self, tool: str) -> bool:
        """Whether a step calls that tool."""
        return any(step.tool == tool for step in self.steps)

    @property
    def kind(self) -> str:
        """What the last step gives."""
        return self._cards[self.steps[-1].tool].output if self.steps else ""

    def add(self, tool: str, **settings: object) -> Step:
        """Put a tool at the end, and before it whatever makes what it takes.

        Args:
            tool: its name.
            settings: that are known already; None leaves one out.
        """
        card = self._cards[tool]
        inputs: dict[str, tuple[str, ...]] = {}
        for name, taken in card.inputs.items():
            if taken.optional and taken.kind not in self._latest:
                continue
            if name == "against":
                inputs[name] = (self._other(taken.kind),)
                continue
            if taken.kind not in self._latest:
                self.add(MAKERS[taken.kind])
            inputs[name] = (self._latest[taken.kind],)
        filled = self._filling.settings(card) | settings
        filled = {name: value for name, value in filled.items() if value is not None}
        step = Step(id=self._id(tool), tool=tool, inputs=inputs, settings=filled, version=card.version)
        self.steps.append(step)
        self._latest[card.output] = step.id
        if tool == "read-rows" and self._filling.frame.rows and not self.uses("filter-rows"):
            self.add("filter-rows", where=" and ".join(self._filling.frame.rows))
        return self.steps[-1]

    def change(self, tool: str, **settings: object) -> None:
        """Change settings of every step of a tool; None takes one out."""
        for place, step in enumerate(self.steps):
            if step.tool == tool:
                changed = {name: value for name, value in {**step.settings, **settings}.items() if value is not None}
                self.steps[place] = msgspec.structs.replace(step, settings=changed)

    def _other(self, kind: str) -> str:
        """A second source of the same type, of the second file or run that is named."""
        frame = self._filling.frame
        names = [*frame.files, *frame.runs, *frame.unknown]
        step = Step(id=self._id("read-rows"), tool="read-rows", settings={"source": names[1] if len(names) > 1 else ""})
        if len(names) < 2:
            self._filling.asks.append("compared with which other data? Name a second file or run")
        if kind not in self._latest:
            self.add(MAKERS[kind])
        self.steps.append(step)
        return step.id

    def _id(self, tool: str) -> str:
        base = re.sub(r"[^a-z]+", "-", tool)
        taken = {step.id for step in self.steps}
        return next(name for name in (base, *(f"{base}-{n}" for n in range(2, 99))) if name not in taken)
