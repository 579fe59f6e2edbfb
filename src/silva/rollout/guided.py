"""What people say to an episode, taken in between two of its turns.

    hear ─┬▶ words ─────────▶ one node (author person) before the agent acts, and a note who said what, when, why
          ├▶ pause, resume ─▶ the next turn waits; the episode's deadline waits with it
          ├▶ stop ──────────▶ the episode ends here, and is evaluated as it stands
          ├▶ forbid, allow ─▶ an action that matches is not taken; the agent is told by whom
          └▶ good, bad ─────▶ a label on a turn's node

A turn under way is never interrupted. Everything said is recorded as supervision by its source *person*; what a resumed
episode finds recorded is not said again, but what is forbidden stays so, and a pause lasts.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from silva.rollout.path import Path
from silva.tree import Author, Message, Supervision, digest, tool_result, user

REFUSED = "refused"
"""The attribute of a policy node whose action was not taken; it holds who forbade it."""

WORDS = "words"
"""The attribute of a person's node: the ids of the supervision that records its words."""

LISTENING = 0.1
"""Seconds between looks for words while an episode waits."""


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
    def pattern(self) -> str: ...


class Guidance(Protocol):
    """Where an episode hears what is said."""

    def hear(self, trajectory_id: str, task_id: str) -> Sequence[Said]:
        """What was said to it since it was last asked; everything at first. Costs next to nothing where nothing was.

        Raises:
            StoreError: what was said cannot be read.
        """
        ...

    def recorded(self, id: str) -> bool:
        """Whether the lake had a supervision of this id when the run began."""
        ...


class Guided:
    """One episode's ear."""

    def __init__(self, guidance: Guidance, path: Path, run_id: str, trajectory_id: str, task_id: str) -> None:
        self._guidance = guidance
        self._path = path
        self._run_id = run_id
        self._trajectory_id = trajectory_id
        self._task_id = task_id
        self._forbidden: dict[str, tuple[re.Pattern[str], Said]] = {}
        self._paused = False
        self.stopped: Said | None = None

    async def attend(self, waited: Callable[[float], None]) -> None:
        """Take in what was said, and wait while the episode is paused.

        Args:
            waited: told, again and again, how many more seconds the episode has been paused.

        Raises:
            StoreError: what was said cannot be read.
        """
        words = self._take()
        clock = asyncio.get_running_loop().time
        while self._paused and self.stopped is None:
            began = clock()
            await asyncio.sleep(LISTENING)
            waited(clock() - began)
            words += self._take()
        if words:
            self._deliver(words)

    def refusal(self, message: Message) -> Said | None:
        """Who forbade the action, if somebody did."""
        if not self._forbidden:
            return None
        texts = [message.text, *(f"{call.name} {call.arguments}" for call in message.tool_calls)]
        return next((said for found, said in self._forbidden.values() if any(map(found.search, texts))), None)

    def refuse(self, said: Said) -> None:
        """Tell the agent that its last action, which stands on the path, was not taken."""
        path = self._path
        action = path.leaf
        assert action is not None and action.author is Author.POLICY
        why = f": {said.why}" if said.why else ""
        text = f"Not done. {said.by}, who watches this run, forbids actions that match {said.pattern!r}{why}."
        path.note(self._record(said, action.id, "mask", f"forbidden: {said.pattern}", once=action.id))
        calls = action.message.tool_calls
        for message in [tool_result(call.id, text, call.name) for call in calls] or [user(text)]:
            path.interject(message)

    def _take(self) -> list[Said]:
        words: list[Said] = []
        for said in self._guidance.hear(self._trajectory_id, self._task_id):
            known = self._guidance.recorded(self._id(said))
            if said.kind == "say":
                words += [] if known else [said]
                continue
            self._obey(said)
            if not known:
                self._note(said)
        return words

    def _obey(self, said: Said) -> None:
        if said.kind in ("pause", "resume"):
            self._paused = said.kind == "pause"
        elif said.kind == "stop":
            self.stopped = said
        elif said.kind == "forbid":
            self._forbidden[said.pattern] = (re.compile(said.pattern), said)
        elif said.kind == "allow":
            self._forbidden.pop(said.pattern, None)

    def _note(self, said: Said) -> None:
        path = self._path
        assert path.leaf is not None
        if said.kind in ("good", "bad"):
            node = path.action(said.turn)
            if node is not None:
                path.note(self._record(said, node.id, "good" if said.kind == "good" else "bad", said.why or said.text))
                return
        path.note(self._record(said, path.leaf.id, "note", said.text or said.why))

    def _deliver(self, words: Sequence[Said]) -> None:
        text = "\n\n".join(f"[{said.by}, a person who watches this run, says:]\n{said.text}" for said in words)
        node = self._path.interject(user(text), {WORDS: [self._id(said) for said in words]})
        for said in words:
            self._path.note(self._record(said, node.id, "note", said.text))

    def _id(self, said: Said, once: str = "") -> str:
        return digest("word", said.id, self._trajectory_id, once)

    def _record(
        self, said: Said, node_id: str, verdict: Literal["good", "bad", "mask", "note"], reason: str, once: str = ""
    ) -> Supervision:
        facts: dict[str, object] = {"word": said.id, "kind": said.kind, "trajectory": self._trajectory_id}
        facts |= {name: value for name in ("why", "turn", "pattern") if (value := getattr(said, name))}
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
