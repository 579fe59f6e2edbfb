"""Rare: actions in a row that the policy seldom takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from pydantic import Field

from silva.curate.signals.attempt import Attempt
from silva.curate.signals.reader import Reader, reader
from silva.curate.signals.signal import Signal
from silva.curate.turn import Turn


@reader
class Rare(Reader):
    """CoEvolve's: of all patterns so far, once there are `least` of them, fewer than `share` % are this one. A pattern
    is `length` actions in a row, each by its tool and by those arguments that the tool's schema chooses from a list;
    an action without a call by its first word. It counts from `walks` attempts on that hold it: once may be chance.
    Who explores goes back to where it was done and on from there (Ecoffet et al., First return, then explore, 2021)."""

    name: ClassVar[str] = "rare"
    summary: ClassVar[str] = "actions in a row that make up few of all that were taken so far"
    behind: ClassVar[bool] = True

    length: int = Field(default=2, ge=1)
    share: float = Field(default=5.0, gt=0, lt=100)
    least: int = Field(default=2000, ge=1)
    walks: int = Field(default=2, ge=1)

    def read(self, attempts: Sequence[Attempt], since: int) -> Iterable[Signal]:
        """See `Reader.read`."""
        found = [(each, list(patterns(each.walk.turns, self.length))) for each in attempts]
        counts = Counter(pattern for _, of_each in found for pattern, _ in of_each)
        held = Counter(pattern for _, of_each in found for pattern in {name for name, _ in of_each})
        total = sum(counts.values())
        if total < self.least:
            return
        rare = {name for name, count in counts.items() if 100 * count / total < self.share and held[name] >= self.walks}
        for each, of_each in found:
            mine = [(counts[name], place, name, turn) for place, (name, turn) in enumerate(of_each) if name in rare]
            if each.step < since or not mine:
                continue
            count, _, name, turn = min(mine)
            yield self.signal(
                each,
                node=turn.action.id,
                turn=turn.number,
                focus=f"seldom done: {', then '.join(name)}",
                evidence={
                    "pattern": list(name),
                    "count": count,
                    "of": total,
                    "others": len({other for _, _, other, _ in mine}) - 1,
                },
            )


def patterns(turns: Sequence[Turn], length: int) -> Iterator[tuple[tuple[str, ...], Turn]]:
    """Each run of so many actions, and the turn it ends with."""
    names = [kind(turn) for turn in turns]
    for stop in range(length, len(turns) + 1):
        yield tuple(names[stop - length : stop]), turns[stop - 1]


def kind(turn: Turn) -> str:
    """What an action is, whatever it is done to."""
    if not turn.calls:
        said = turn.action.message.text.split()
        return said[0].lower() if said else "(nothing)"
    return " + ".join(_call(turn, call.name, call.arguments or {}) for call in turn.calls)


def _call(turn: Turn, name: str, arguments: dict[str, Any]) -> str:
    schema = next((tool.parameters for tool in turn.tools if tool.name == name), {})
    declared: Any = schema.get("properties", {})
    chosen = [
        str(arguments[each])
        for each, said in sorted(declared.items())
        if each in arguments and isinstance(said, dict) and ("enum" in said or said.get("type") == "boolean")
    ]
    return " ".join([name, *chosen])
