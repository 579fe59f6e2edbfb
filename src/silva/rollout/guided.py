"""What people say to an episode, taken in between two of its turns.

    hear ─┬▶ words ─────────▶ one node (author person) before the agent acts, and a note who said what, when, why
          ├▶ pause, resume ─▶ the next turn waits; the episode's deadline waits with it
          ├▶ stop ──────────▶ the episode ends here, and is evaluated as it stands
          ├▶ forbid, allow ─▶ an action that matches is not taken; the agent is told by whom
          ├▶ good, bad ─────▶ a label on a turn's node
          ├▶ approve, reject, edit ─▶ what is done with the action that waits (`silva.rollout.stages.approval`)
          └▶ back, edit ────▶ the episode is left, and goes on from an earlier turn (`silva.rollout.guided_return`)

A turn under way is never interrupted. Everything said is recorded as supervision by its source *person*; what a resumed
episode finds recorded is not said again, but what is forbidden stays so, and a pause lasts. Of two orders that
contradict each other the later counts; both are recorded.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

from silva.rollout.agent import Turn
from silva.rollout.guided_nodes import ASKED, INSTEAD_OF, WORDS
from silva.rollout.guided_return import Return, WentBack
from silva.rollout.path import Path
from silva.rollout.slots import Slot
from silva.tree import Message, Node, Supervision, digest, trajectory_id, user
from silva.tree.actions import decoded, found
from silva.tree.role import ROLE

LISTENING = 0.1
"""Seconds between looks for words while an episode waits."""

MOST_AT_ONCE = 200_000
"""Characters of words delivered before one turn; what is beyond waits for the next."""


class Said(Protocol):
    """One thing a person said; `silva.guide.Word` is one."""

    @property
    def id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def by(self) -> str: ...
    @property
    def at(self) -> float: ...
    @property
    def text(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def turn(self) -> int: ...
    @property
    def node(self) -> str: ...
    @property
    def pattern(self) -> str: ...
    @property
    def taken(self) -> Message | None:
        """The action to take, of words that give one."""
        ...


class Guidance(Protocol):
    """Where an episode hears what is said, and tells what became of it."""

    def hear(self, trajectory_id: str, task_id: str, formerly: Sequence[str] = ()) -> Sequence[Said]:
        """What was said to it, or to earlier attempts at its place (`formerly`), since it was last asked; everything at
        first. Costs next to nothing where nothing was.

        Raises:
            StoreError: what was said cannot be read.
        """
        ...

    def recorded(self, id: str) -> bool:
        """Whether the lake had a supervision of this id when the run began."""
        ...

    def tell(self, kind: str, **facts: Any) -> None:
        """Let people know: an agent waits, a word was heard, one could not be followed (`silva.guide.Event`).

        Raises:
            StoreError: it cannot be written.
        """
        ...


class Guided:
    """One episode's ear.

    Args:
        guidance: where it listens.
        path: what the episode grows.
        run_id: of the run.
        slot: the episode's place; its earlier attempts' words are meant for it too.
        heard: ids of words that were heard before a person went back.
    """

    def __init__(
        self, guidance: Guidance, path: Path, run_id: str, slot: Slot, heard: frozenset[str] = frozenset()
    ) -> None:
        self._guidance = guidance
        self._path = path
        self._run_id = run_id
        self._slot = slot
        self._task_id = slot.task.id
        names = [trajectory_id(run_id, slot.task.id, slot.index, attempt) for attempt in range(slot.attempt + 1)]
        self._trajectory_id, self._formerly = names[-1], tuple(names[:-1])
        self._before = heard
        self._heard = set(heard)
        self._forbidden: dict[str, tuple[re.Pattern[str], Said]] = {}
        self._paused = False
        self._undelivered: list[Said] = []
        self._waiting: Node | None = None
        self._decision: Said | None = None
        self.stopped: Said | None = None
        self.returning: Return | None = None

    async def attend(self, waited: Callable[[float], None]) -> None:
        """Take in what was said, and wait while the episode is paused.

        Args:
            waited: told, again and again, how many more seconds the episode has been paused.

        Raises:
            WentBack: a person goes back to an earlier turn.
            StoreError: what was said cannot be read.
        """
        self._take()
        while self._paused and self.stopped is None:
            await self._listen(waited)
        if self._undelivered and self.stopped is None:
            self._deliver()

    def last_words(self) -> None:
        """Take in what was said during the last turn. Words for the agent come too late; they are kept all the same.

        Raises:
            WentBack, StoreError: as `attend`.
        """
        self._take()
        words, self._undelivered = self._undelivered, []
        leaf = self._path.leaf
        for said in words:
            if leaf is not None:
                self._path.note(self._record(said, leaf.id, "note", said.text))
            self._undone(said, "the episode was over")

    async def decide(self, action: Node, waited: Callable[[float], None]) -> Said | None:
        """Wait until a person decides on an action that stands last on the path; None when the episode is stopped.

        Args:
            action: the agent's, durable.
            waited: as in `attend`.

        Raises:
            WentBack, StoreError: as `attend`.
        """
        self._waiting, self._decision, told = action, None, False
        try:
            self._take()
            while self.stopped is None and (self._decision is None or self._paused):
                if not told and self._decision is None:
                    self._tell("waiting", node_id=action.id, **_shown(action))
                    told = True
                    self._take()  # who is at hand decides at once
                    continue
                await self._listen(waited)
        finally:
            ending = self.returning or self.stopped or self._decision
            if ending is not None:
                self._tell("decided", node_id=action.id, by=ending.by, text=ending.kind)
            self._waiting = None
        if self.stopped is not None:
            self._path.answer(action, f"{self.stopped.by}, who watches this run, ended it")
            return None
        return self._decision

    def approved(self, said: Said) -> None:
        """Keep who approved the last action on the path."""
        action = self._path.walk[-1]
        self._follow(said, self._record(said, action.id, "note", said.why or said.text or "approved"))

    def edited(self, said: Said, written: Callable[[Message], Turn]) -> Node:
        """Put a person's action in the place of the last on the path, which was not taken; return its node.

        Args:
            said: the word.
            written: makes a turn of its action.
        """
        message = said.taken
        assert message is not None, "an edit has an action"
        action = self._path.set_aside()
        self._path.note(self._record(said, action.id, "mask", said.why or "another action was taken instead"))
        return self.take_for(said, written(message), action.id)

    def take_for(self, said: Said | Return, turn: Turn, instead_of: str) -> Node:
        """Take a person's action."""
        facts: dict[str, object] = {"word": said.id, "by": said.by, INSTEAD_OF: instead_of}
        node = self._path.act_for(turn, facts)
        self._follow(said, self._record(said, node.id, "note", said.why or "taken by a person", once=node.id), node.id)
        self._path.send()
        return node

    def begin_again(self, back: Return) -> None:
        """Deliver the words that came with going back, once."""
        if back.text and not self._guidance.recorded(self._id(back)):
            self._interject([back])

    def refusal(self, message: Message) -> Said | None:
        """Who forbade the action, if somebody did."""
        if not self._forbidden:
            return None
        return next((said for pattern, said in self._forbidden.values() if found(pattern, message)), None)

    def forbidden(self, said: Said, action: Node) -> Supervision:
        """The record of an action that was not taken because it is forbidden."""
        return self._record(said, action.id, "mask", f"forbidden: {said.pattern}", once=action.id)

    def reject(self, said: Said, action: Node) -> None:
        """Keep that a person rejected the last action on the path, and tell the agent."""
        why = f": {said.why}" if said.why else ""
        self._follow(said, self._record(said, action.id, "mask", said.why or "rejected"), action.id)
        self._path.answer(action, f"{said.by}, who watches this run, rejected this action{why}")

    async def _listen(self, waited: Callable[[float], None]) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        await asyncio.sleep(LISTENING)
        waited(clock() - began)
        self._take()

    def _take(self) -> None:
        for said in self._guidance.hear(self._trajectory_id, self._task_id, self._formerly):
            before = said.id in self._before
            known = before or self._guidance.recorded(self._id(said))
            if known:
                self._heard.add(said.id)
            if said.node and self._formerly and not self._path.turn_of(said.node):
                continue  # about an action of an attempt that has ended
            if said.kind == "say":
                self._undelivered += [] if known else [said]
            elif said.kind in ("approve", "reject") or (said.kind == "edit" and self._is_waited_for(said)):
                if not known:
                    self._decide(said)
            elif said.kind in ("back", "edit"):
                if not known:
                    self._go_back(said)
            elif not (before and said.kind == "stop"):
                self._obey(said)
                if not known:
                    self._note(said)

    def _obey(self, said: Said) -> None:
        if said.kind in ("pause", "resume"):
            self._paused = said.kind == "pause"
        elif said.kind == "stop":
            self.stopped = said
        elif said.kind == "forbid":
            self._forbidden[said.pattern] = (re.compile(said.pattern), said)
        elif said.kind == "allow":
            self._forbidden.pop(said.pattern, None)

    def _is_waited_for(self, said: Said) -> bool:
        action = self._waiting
        named = said.node in ("", action.id) if action is not None else False
        return named and said.turn in (0, self._path.turns)

    def _decide(self, said: Said) -> None:
        if not self._is_waited_for(said):
            self._refrain(said, "no action waits for approval" + (" at that turn" if self._waiting else ""))
        elif self._decision is not None:
            self._refrain(said, f"{self._decision.by} had decided: {self._decision.kind}")
        else:
            self._decision = said

    def _go_back(self, said: Said) -> None:
        path = self._path
        turn = path.turn_of(said.node) if said.node else said.turn or path.turns
        action = path.action(turn) if turn else None
        if action is None or action.parent_id is None:
            self._refrain(said, self._no_turn(said.turn))
            return
        if ROLE in action.attributes:
            self._refrain(said, "an episode of several agents goes on: no turn of one can be taken back alone")
            return
        self._follow(said, self._record(said, action.id, "mask", said.why or f"went back to turn {turn}"), action.id)
        taken = said.taken
        back = Return(
            turn=turn,
            node=action.parent_id,
            instead_of=action.id,
            word=said.id,
            kind=said.kind,
            by=said.by,
            at=said.at,
            why=said.why,
            text=said.text,
            action=taken,
            heard=tuple(sorted(self._heard)),
        )
        self.returning, self.stopped = back, None
        if self._waiting is not None:
            self._path.answer(self._waiting, f"{said.by}, who watches this run, went back to turn {turn}")
        self._tell("back", turn=turn, node_id=action.id, by=said.by, word=said.id, text=said.why)
        raise WentBack

    def _note(self, said: Said) -> None:
        path = self._path
        assert path.leaf is not None
        if said.kind in ("good", "bad"):
            node = path.action(said.turn)
            if node is None:
                self._refrain(said, self._no_turn(said.turn))
                return
            verdict = "good" if said.kind == "good" else "bad"
            self._follow(said, self._record(said, node.id, verdict, said.why or said.text), node.id)
            return
        self._follow(said, self._record(said, path.leaf.id, "note", said.text or said.why), path.leaf.id)

    def _no_turn(self, turn: int) -> str:
        taken = self._path.turns
        return f"turn {turn} has not been taken: there are {taken}" if taken and turn else "no turn has been taken yet"

    def _deliver(self) -> None:
        size, many = 0, 0
        for many, said in enumerate(self._undelivered, 1):  # noqa: B007 - read after the loop
            size += len(said.text)
            if size >= MOST_AT_ONCE:
                break
        words, self._undelivered = self._undelivered[:many], self._undelivered[many:]
        self._interject(words)

    def _interject(self, words: Sequence[Said | Return]) -> None:
        text = "\n\n".join(f"[{said.by}, a person who watches this run, says:]\n{said.text}" for said in words)
        node = self._path.interject(user(text), {WORDS: [self._id(said) for said in words]})
        for said in words:
            self._follow(said, self._record(said, node.id, "note", said.text), node.id)

    def _follow(self, said: Said | Return, record: Supervision, node_id: str = "") -> None:
        """Keep that a word was heard, and let people know."""
        self._heard.add(said.id)
        self._path.note(record)
        self._tell("heard", word=said.id, by=said.by, text=said.kind, node_id=node_id or record.node_id)

    def _refrain(self, said: Said, reason: str) -> None:
        """Keep a word that cannot be followed, and why."""
        leaf = self._path.leaf
        if leaf is not None:
            self._path.note(self._record(said, leaf.id, "note", f"not done: {reason}"))
        self._undone(said, reason)

    def _undone(self, said: Said, reason: str) -> None:
        self._heard.add(said.id)
        self._tell("undone", word=said.id, by=said.by, text=reason)

    def _tell(self, kind: str, **facts: Any) -> None:
        slot = self._slot
        named = {"trajectory_id": self._trajectory_id, "task_id": self._task_id, "index": slot.index}
        self._guidance.tell(kind, **{**named, "attempt": slot.attempt, "turn": self._path.turns, **facts})

    def _id(self, said: Said | Return, once: str = "") -> str:
        return digest("word", said.id, self._trajectory_id, once)

    def _record(
        self,
        said: Said | Return,
        node_id: str,
        verdict: Literal["good", "bad", "mask", "note"],
        reason: str,
        once: str = "",
    ) -> Supervision:
        facts: dict[str, object] = {"word": said.id, "kind": said.kind, "trajectory": self._trajectory_id}
        facts |= {name: value for name in ("why", "turn", "pattern") if (value := getattr(said, name, None))}
        return Supervision(
            id=self._id(said, once),
            node_id=node_id,
            run_id=self._run_id,
            verdict=verdict,
            source="person",
            by=said.by,
            reason=reason,
            at=said.at,
            attributes=facts,
        )


def _shown(action: Node) -> dict[str, Any]:
    """An action that waits, as people are told of it."""
    message = action.message
    lines = [message.text, *(f"{call.name}({decoded(call)})" for call in message.tool_calls)]
    return {"action": "\n".join(filter(None, lines)), "reasons": tuple(action.attributes.get(ASKED, ()))}
