"""What people say between two turns, and what they forbid: the episode's ear (`silva.rollout.guided`) as a stage.

before the turn   words taken in and delivered; a pause holds, a stop ends, going back leaves the episode
on the action     one that matches what is forbidden is refused, in the name of who forbade it
at the end        words that came during the last turn
"""

from __future__ import annotations

from typing import Any

from silva.rollout.agent import Turn
from silva.rollout.ending import Stopped
from silva.rollout.guided import Guided
from silva.rollout.live import Live, Refusal
from silva.rollout.stages.stage import Stage
from silva.tree import Author


class Words(Stage):
    """Takes in what people say to one episode."""

    name = "guidance"
    author = Author.PERSON

    def __init__(self, guided: Guided) -> None:
        self._guided = guided

    async def before_turn(self, live: Live) -> None:
        """Take in what was said, and wait while the episode is paused.

        Raises:
            Stopped: a person ends the episode.
            WentBack: a person goes back to an earlier turn.
            StoreError: what was said cannot be read.
        """
        await self._guided.attend(live.put_off)
        if self._guided.stopped is not None:
            raise Stopped

    async def on_action(self, live: Live, turn: Turn) -> Turn | Refusal:
        """Refuse what is forbidden."""
        said = self._guided.refusal(turn.message)
        if said is None:
            return turn
        why = f": {said.why}" if said.why else ""
        text = f"{said.by}, who watches this run, forbids actions that match {said.pattern!r}{why}"
        return Refusal(said.by, text, self.author, lambda action: [self._guided.forbidden(said, action)])

    async def at_end(self, live: Live) -> None:
        """Take in what was said during the last turn."""
        self._guided.last_words()

    def attributes(self) -> dict[str, Any]:
        """Who went back, or who ended the episode."""
        if self._guided.returning is not None:
            return self._guided.returning.attributes()
        stopped = self._guided.stopped
        return {} if stopped is None else {"stopped": {"by": stopped.by, "why": stopped.why or stopped.text}}
