"""A scripted person in BabyAI: reads what the agent reads, and at a turn that went wrong says which action is right, or
has the agent go back to before it.

    mission and view ─▶ where the object named lies ─▶ steps that are left ─▶ more than before, or nothing moved?
        ─▶ the turn is *bad*, and the words: the action that comes closer from where the agent stands now

It knows no more than the agent is shown, as an annotator would who reads along; it does not ask the environment's bot.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from silva.curate.turn import read_walk
from silva.guide.mailroom import Mailroom
from silva.guide.word import word
from silva.tree import Node, digest

BY = "coach"
FAR = 8
"""Steps that count as left while the object is out of sight."""

_MISSION = re.compile(r"Mission: go to (?:the|a|an) (?P<name>\w+ \w+)")
_SEEN = re.compile(
    r"(?P<name>\w+ \w+|wall) (?:(?P<forward>\d+) steps? forward)?(?: and )?(?:(?P<aside>\d+) steps? (?P<side>left|right))?"
)


class View:
    """What the agent sees: names with the steps forward and to the right (left is below 0)."""

    def __init__(self, text: str) -> None:
        told = text.rpartition("You see: ")[2].partition(". You carry")[0].rstrip(".")
        self.things: list[tuple[str, int, int]] = []
        for part in told.split("; "):
            found = _SEEN.search(part)
            if found is not None and (found["forward"] or found["aside"]):
                aside = int(found["aside"] or 0) * (-1 if found["side"] == "left" else 1)
                self.things.append((found["name"], int(found["forward"] or 0), aside))

    def nearest(self, name: str) -> tuple[int, int] | None:
        """Where the nearest thing of that name lies."""
        return min(((f, a) for each, f, a in self.things if each == name), key=_steps, default=None)

    def left(self, name: str) -> int:
        """Actions that are left until the agent stands before it."""
        place = self.nearest(name)
        return FAR if place is None else _steps(place)

    def right(self, name: str) -> str:
        """The action that comes closer."""
        place = self.nearest(name)
        if place is None:
            return "turn_right"
        forward, aside = place
        free = not any(f == 1 and a == 0 for _, f, a in self.things)
        if free and (aside == 0 or forward > 0):
            return "move_forward"
        return "turn_left" if aside < 0 else "turn_right"


MOST = 12
"""So often an attempt is sent back; a turn that goes wrong after that is called bad, and stands."""


class Coach(Mailroom):
    """A mailroom in which the coach is at hand; see `silva.rollout.stages.watching.Watching`. `said` counts corrections."""

    _seen: dict[str, int]
    said: int

    @classmethod
    def beside(cls, lake: str, run_id: str) -> Coach:
        """The mailroom of a run that is about to begin, with the coach in it."""
        made = cls.of(lake, run_id)
        assert isinstance(made, Coach)
        made._seen, made.said = {}, 0
        return made

    def watch(self, trajectory_id: str, task_id: str, walk: Sequence[Node]) -> None:
        """Judge the turns that have ended, and correct the last where it went wrong."""
        read = read_walk(walk)
        opening = "\n".join(node.message.text for node in read.opening)
        mission = _MISSION.search(opening)
        if mission is None:
            return
        for turn in read.turns[self._seen.get(trajectory_id, 0) :]:
            before = read.turns[turn.number - 2].observation if turn.number > 1 else opening
            if turn.is_last or not _went_wrong(mission["name"], before, turn.observation):
                continue
            self._speak(trajectory_id, "bad", turn.number, why="it came no closer")
            if turn.number == len(read.turns):
                self._speak(trajectory_id, "say", turn.number, text=View(turn.observation).right(mission["name"]))
                self.said += 1
        self._seen[trajectory_id] = len(read.turns)

    def _speak(self, to: str, kind: str, number: int, **more: str) -> None:
        name = digest("coach", self.mailbox.run_id, to, kind, str(number))[:24]
        about = {"turn": number} if kind in ("bad", "back") else {}
        self.mailbox.say(word(self.mailbox.run_id, kind, BY, time.time(), to=to, id=name, **about, **more))


class Back(Coach):
    """A coach of few words: an attempt goes back to before the turn that went wrong, and chooses again. What it is
    trained on stands in the context that it will have when nobody speaks."""

    def watch(self, trajectory_id: str, task_id: str, walk: Sequence[Node]) -> None:
        """Judge the turns that have ended, and send the attempt back to before the last where it went wrong."""
        read = read_walk(walk)
        opening = "\n".join(node.message.text for node in read.opening)
        mission = _MISSION.search(opening)
        if mission is None:
            return
        place = f"{task_id} {walk[-1].slot.partition('.')[0]}"
        for turn in read.turns[self._seen.get(trajectory_id, 0) :]:
            before = read.turns[turn.number - 2].observation if turn.number > 1 else opening
            if turn.is_last or not self._wrong(mission["name"], before, turn.observation, turn.action.id):
                continue
            if turn.number == len(read.turns) and self._seen.get(place, 0) < MOST:
                self._seen[place] = self._seen.get(place, 0) + 1
                self._speak(trajectory_id, "back", turn.number)
                self.said += 1
            else:
                self._speak(trajectory_id, "bad", turn.number, why="it came no closer")
        self._seen[trajectory_id] = len(read.turns)

    def _wrong(self, name: str, before: str, after: str, action: str) -> bool:
        return _went_wrong(name, before, after)


class ByChance(Back):
    """Somebody who looks at nothing: goes back as often as a coach does, at turns drawn by chance. The control: it must
    not help."""

    OFTEN = 0.45

    def _wrong(self, name: str, before: str, after: str, action: str) -> bool:
        return int(digest("by chance", action)[:8], 16) < self.OFTEN * 16**8


def _went_wrong(name: str, before: str, after: str) -> bool:
    if "You see: " not in after:
        return True  # an error
    if "Mission fulfilled" in after:
        return False
    was, now = View(before), View(after)
    return was.things == now.things or now.left(name) > was.left(name)


def _steps(place: tuple[int, int]) -> int:
    forward, aside = abs(place[0]), abs(place[1])
    return forward + aside if aside else forward - 1
