"""A scripted person: watches walks, and says what its script has it say.

    walk, as it grows ─▶ turns that have ended since ─▶ rules ─┐
    action that waits for approval ─▶ rules with `when.waits` ─┴▶ words ─▶ mailbox ─▶ heard as a person's

What is said follows from the script and the walk alone, and so do the words' ids: a run that is killed and goes on, or
a person that begins again, says nothing twice. Turns of an attempt that somebody went back from are not judged again
in the one that goes on from there; they count for how often a rule may speak.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from silva.curate.mask.kinds import Kinds
from silva.curate.mask.rules import rules as mask_rules
from silva.curate.turn import Turn, Walk, read_walk
from silva.guide.mailbox import Mailbox
from silva.guide.word import Word, word
from silva.loops.apollo.script import EXPERT, Rule, ScriptedRules
from silva.tree import Message, Node, digest, trajectory_at

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
        self._advice: dict[tuple[str, int], Message] = {}
        self._drawn: dict[str, Message] = {}
        wanted = {rule.when.rule for rule in script.rules if rule.when.rule is not None}
        self._faults = {rule.name: rule for rule in mask_rules(sorted(wanted), Kinds())} if wanted else {}

    @property
    def asks(self) -> bool:
        """Whether it is to be told what the environment's expert would do."""
        return self._script.asks

    def advise(self, to: str, turn: int, action: Message) -> None:
        """Be told what the expert would do at a turn of a trajectory that is about to be taken."""
        self._advice[to, turn] = action

    def drawn(self, to: str, action: Message) -> None:
        """Be told which action of a trajectory waits."""
        self._drawn[to] = action

    def watch(self, to: str, task_id: str, nodes: Sequence[Node], *, ended: bool = False) -> list[Word]:
        """See a walk so far, and speak; what was said, which may be nothing.

        Args:
            to: the trajectory's id.
            task_id: its task's.
            nodes: root first.
            ended: whether its last turn has ended though nothing stands behind it, as one that ends the episode.

        Raises:
            StoreError: it cannot be said.
            UsageError: the run has ended.
        """
        walk = read_walk(nodes)
        seen = self._seen.get(to, -1)
        done = len(walk.turns) - (1 if walk.turns and not (ended or _answered(walk.turns[-1], nodes)) else 0)
        earlier = self._earlier(to, task_id, nodes)
        words: list[Word] = []
        for number in range(seen + 1, done + 1):
            turn = walk.turns[number - 1] if number else None
            judged = bool(earlier) and (turn is None or turn.action.slot in earlier)
            for name, rule in self._script.named():
                if rule.decides or not self._holds(to, rule, number, turn, walk):
                    continue
                place = _place(task_id, turn) if rule.deed == "back" else to
                if rule.times and self._count(place, name, rule) >= rule.times:
                    continue
                self._times[place, name] = self._times.get((place, name), 0) + 1
                if not judged:
                    words += self._say(to, name, rule, number, place)
        self._seen[to] = max(seen, done)
        return words

    def decide(self, to: str, turn: int, node_id: str, action: str, reasons: Sequence[str]) -> list[Word]:
        """Decide on an action that waits for approval, by the first rule that holds; nothing where none does.

        Args:
            to: the trajectory's id.
            turn: the action's number.
            node_id: its id.
            action: it as text.
            reasons: why it waits.

        Raises:
            StoreError, UsageError: as `watch`.
        """
        for name, rule in self._script.named():
            when = rule.when
            if not rule.decides or not _counts(rule, turn):
                continue
            if when.action is not None and not re.search(when.action, action):
                continue
            if not any(re.search(when.waits or "", reason) for reason in reasons or ("",)):
                continue
            if when.expert is not None and not self._compares(to, turn, when.expert, self._drawn.get(to)):
                continue
            if EXPERT in rule.actions and (to, turn) not in self._advice:
                continue
            more: dict[str, Any] = {"node": node_id, "why": rule.why}
            if rule.edit:
                more["action"] = self._action(to, turn, rule.edit)
            made = self._word(rule.deed, to, name, turn, more, _mark(to, name, node_id))
            if made.id in self._said:
                return []
            if rule.times and self._count(to, name, rule) >= rule.times:
                continue
            self._said.add(made.id)
            self._mailbox.say(made)
            return [made]
        return []

    def _earlier(self, to: str, task_id: str, nodes: Sequence[Node]) -> set[str]:
        """The slots of earlier attempts that a walk goes on from."""
        slots = {node.slot for node in nodes if node.slot}
        if len(slots) < 2:
            return set()
        return {slot for slot in slots if trajectory_at(self._mailbox.run_id, task_id, slot) != to}

    def _count(self, place: str, name: str, rule: Rule) -> int:
        """How often a rule has spoken. Decisions, and going back, do not follow from the walk alone: they are counted
        in the mailbox."""
        if rule.decides or rule.deed == "back":
            start = _mark(place, name)
            return sum(each.startswith(start) for each in self._said)
        return self._times.get((place, name), 0)

    def _holds(self, to: str, rule: Rule, number: int, turn: Turn | None, walk: Walk) -> bool:
        when = rule.when
        if turn is None:
            return when.turn == 0
        if not _counts(rule, number):
            return False
        if when.action is not None and not re.search(when.action, _text(turn.action.message)):
            return False
        if when.observation is not None and not re.search(when.observation, turn.observation):
            return False
        if when.expert is not None and not self._compares(to, number, when.expert, turn.action.message):
            return False
        if EXPERT in rule.actions and (to, number) not in self._advice:
            return False
        if when.rule is not None:
            upto = Walk(walk.opening, walk.turns[:number])
            return any(found.turn.number == number for found in self._faults[when.rule].find(upto))
        return True

    def _compares(self, to: str, number: int, wanted: str, action: Message | None) -> bool:
        """Whether an action is the same as, or another than, the expert's at that turn."""
        advised = self._advice.get((to, number))
        return advised is not None and action is not None and (wanted == "same") == _alike(advised, action)

    def _action(self, to: str, number: int, given: str) -> str:
        """The text of an action that is to be taken at a turn."""
        if given != EXPERT:
            return given
        advised = self._advice[to, number]
        calls = [{"name": each.name, "arguments": each.arguments} for each in advised.tool_calls]
        return json.dumps({"text": advised.text, "tool_calls": calls}, ensure_ascii=False)

    def _say(self, to: str, name: str, rule: Rule, number: int, place: str) -> list[Word]:
        deed, mark = rule.deed, ""
        more: dict[str, Any] = {"why": rule.why or f"script: {name}"}
        if deed == "say":
            more["text"] = rule.say or ""
        elif deed in ("forbid", "allow"):
            more["pattern"] = str(getattr(rule, deed))
        elif deed in ("good", "bad"):
            more["turn"] = number
        elif rule.back is not None:
            taken = self._action(to, number, rule.back.action)
            more |= {"turn": rule.back.turn or number, "text": rule.back.say, "action": taken}
            mark = _mark(place, name, f"{to} {number}")
        made = self._word(deed, to, name, number, more, mark)
        fresh = made.id not in self._said
        if fresh:
            self._said.add(made.id)
            self._mailbox.say(made)
        if deed == "pause":
            self._resume(to, name, number, rule)
        return [made] if fresh else []

    def _resume(self, trajectory_id: str, name: str, number: int, rule: Rule) -> None:
        made = self._word("resume", trajectory_id, name, number, {"why": f"script: {name}"})
        if made.id not in self._said:
            self._said.add(made.id)
            self._later(rule.pause or 0.0, lambda: self._mailbox.say(made))

    def _word(self, kind: str, to: str, name: str, number: int, more: dict[str, Any], mark: str = "") -> Word:
        named = mark or digest("script", self._mailbox.run_id, to, name, str(number), kind)[:24]
        return word(self._mailbox.run_id, kind, self._script.by, time.time(), to=to, id=named, **more)


def _counts(rule: Rule, number: int) -> bool:
    """Whether a turn has the number that a rule asks for."""
    when = rule.when
    return (when.turn is None or when.turn == number) and (when.every is None or number % when.every == 0)


def _text(message: Message) -> str:
    return "\n".join([message.text, *(f"{each.name} {each.arguments}" for each in message.tool_calls)])


def _alike(one: Message, other: Message) -> bool:
    """Whether two actions are the same: their calls, or their words where neither calls."""
    if not one.tool_calls and not other.tool_calls:
        return one.text.strip() == other.text.strip()
    return _calls(one) == _calls(other)


def _calls(message: Message) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for each in message.tool_calls:
        try:
            found.append((each.name, each.parsed()))
        except ValueError:
            found.append((each.name, each.arguments))
    return found


def _place(task_id: str, turn: Turn | None) -> str:
    """What all attempts at one place share."""
    return f"{task_id} {turn.action.slot.partition('.')[0] if turn is not None else ''}"


def _mark(place: str, name: str, about: str = "") -> str:
    """The id of a word by which it can be told how often a rule has spoken at a place; how such ids begin, if it is
    about nothing."""
    start = digest("script", place, name)[:16]
    return f"{start}.{digest('script', place, name, about)[:16]}" if about else f"{start}."


def _answered(turn: Turn, nodes: Sequence[Node]) -> bool:
    """Whether a turn has ended: something stands behind its action, or it was refused."""
    return bool(turn.answers) or nodes[-1].id != turn.action.id
