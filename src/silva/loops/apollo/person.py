"""A scripted person: watches walks, and says what its script has it say.

    walk, as it grows ─▶ turns that have ended since ─▶ rules ─▶ words ─▶ mailbox ─▶ heard as a person's

What is said follows from the script and the walk alone, and so do the words' ids: a run that is killed and goes on, or
a person that begins again, says nothing twice.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from silva.curate.mask.kinds import Kinds
from silva.curate.mask.rules import rules as mask_rules
from silva.curate.turn import Turn, Walk, read_walk
from silva.guide.mailbox import Mailbox
from silva.guide.word import Word, word
from silva.loops.apollo.script import Rule, ScriptedRules
from silva.tree import Node, digest

Later = Callable[[float, Callable[[], None]], None]
"""Calls something after so many seconds."""


class ScriptedPerson:
    """Speaks to the agents of a run.

    Args:
        script: what is said, and when.
        mailbox: of the run; what stands in it already is not said again.
        later: takes back a pause in time.
    """

    def __init__(self, script: ScriptedRules, mailbox: Mailbox, later: Later) -> None:
        self._script = script
        self._mailbox = mailbox
        self._later = later
        self._said = {each.id for each in Mailbox(mailbox.path.parent, mailbox.run_id).read()}
        self._seen: dict[str, int] = {}
        self._times: dict[tuple[str, str], int] = {}
        wanted = {rule.when.rule for rule in script.rules if rule.when.rule is not None}
        self._faults = {rule.name: rule for rule in mask_rules(sorted(wanted), Kinds())} if wanted else {}

    def watch(self, trajectory_id: str, nodes: Sequence[Node]) -> list[Word]:
        """See a walk so far, and speak; what was said, which may be nothing.

        Raises:
            StoreError: it cannot be said.
            UsageError: the run has ended.
        """
        walk = read_walk(nodes)
        seen = self._seen.get(trajectory_id, -1)
        done = len(walk.turns) - (1 if walk.turns and not _answered(walk.turns[-1], nodes) else 0)
        words: list[Word] = []
        for number in range(seen + 1, done + 1):
            turn = walk.turns[number - 1] if number else None
            for name, rule in self._script.named():
                place = (trajectory_id, name)
                if self._holds(rule, number, turn, walk) and (not rule.times or self._times.get(place, 0) < rule.times):
                    self._times[place] = self._times.get(place, 0) + 1
                    words += self._say(trajectory_id, name, rule, number)
        self._seen[trajectory_id] = max(seen, done)
        return words

    def _holds(self, rule: Rule, number: int, turn: Turn | None, walk: Walk) -> bool:
        when = rule.when
        if turn is None:
            return when.turn == 0
        if (when.turn is not None and when.turn != number) or (when.every is not None and number % when.every):
            return False
        message = turn.action.message
        action = "\n".join([message.text, *(f"{each.name} {each.arguments}" for each in message.tool_calls)])
        if when.action is not None and not re.search(when.action, action):
            return False
        if when.observation is not None and not re.search(when.observation, turn.observation):
            return False
        if when.rule is not None:
            upto = Walk(walk.opening, walk.turns[:number])
            return any(found.turn.number == number for found in self._faults[when.rule].find(upto))
        return True

    def _say(self, trajectory_id: str, name: str, rule: Rule, number: int) -> list[Word]:
        deed = rule.deed
        more: dict[str, str | int] = {"why": rule.why or f"script: {name}"}
        if deed == "say":
            more["text"] = rule.say or ""
        elif deed in ("forbid", "allow"):
            more["pattern"] = str(getattr(rule, deed))
        elif deed in ("good", "bad"):
            more["turn"] = number
        made = self._word(deed, trajectory_id, name, number, more)
        if made.id in self._said:
            if deed == "pause":
                self._resume(trajectory_id, name, number, rule)
            return []
        self._said.add(made.id)
        self._mailbox.say(made)
        if deed == "pause":
            self._resume(trajectory_id, name, number, rule)
        return [made]

    def _resume(self, trajectory_id: str, name: str, number: int, rule: Rule) -> None:
        made = self._word("resume", trajectory_id, name, number, {"why": f"script: {name}"})
        if made.id not in self._said:
            self._said.add(made.id)
            self._later(rule.pause or 0.0, lambda: self._mailbox.say(made))

    def _word(self, kind: str, to: str, name: str, number: int, more: dict[str, str | int]) -> Word:
        named = digest("script", self._mailbox.run_id, to, name, str(number), kind)[:24]
        return word(self._mailbox.run_id, kind, self._script.by, time.time(), to=to, id=named, **more)


def _answered(turn: Turn, nodes: Sequence[Node]) -> bool:
    """Whether a turn has ended: something stands behind its action, or it was refused."""
    return bool(turn.answers) or nodes[-1].id != turn.action.id
