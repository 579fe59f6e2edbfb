"""An agent writes a summary of its own work when its context has grown past a threshold.

    before a turn ─▶ context too long? ─▶ cut ─▶ the model is asked ─▶ sound? ─┬▶ a branch behind turn k, in force
                                                     ▲                         │ no
                                                     └──────── once more ◀─────┴▶ a node that says why; the episode
                                                                                  goes on without, until its context
                                                                                  is full

It is asked between two turns, as a turn is: with the run's model and a seed, and what it costs is counted. What a
person says meanwhile waits, and is heard before the turn that follows.
"""

from __future__ import annotations

import time
from typing import Any, Protocol, runtime_checkable

import msgspec

from silva.models.errors import ModelError
from silva.redact import redact
from silva.rollout.agent import Turn, View
from silva.rollout.config import SummaryConfig
from silva.rollout.guided_nodes import takes_turn
from silva.rollout.live import SEEDS, Live
from silva.rollout.path import Path
from silva.rollout.stages.stage import Stage
from silva.rollout.summary import SUMMARY, Facts, context, cut, in_force, latest, size, tokens, told
from silva.rollout.summary_words import ASKED
from silva.tree import NO_USAGE, Author, Usage, assistant

ATTEMPTS = 2
"""How often a model is asked for one summary."""


@runtime_checkable
class Summariser(Protocol):
    """An agent that can sum up its own conversation."""

    async def summarise(self, view: View, asked: str) -> Turn:
        """Answer the request in plain words, in the agent's own form of the conversation.

        Raises:
            ModelError: the model could not be had.
        """
        ...


class Summaries(Stage):
    """One episode's summaries.

    Args:
        config: how they are made.
        threshold: tokens a context may have.
        path: what is summed up.
    """

    name = "summary"
    author = Author.SUMMARISER

    def __init__(self, config: SummaryConfig, threshold: int, path: Path) -> None:
        self._config = config
        self._threshold = threshold
        self._path = path

    async def before_turn(self, live: Live) -> None:
        """Make a summary if one is due; an agent that cannot sum up is left alone.

        Raises:
            StoreError: what was made cannot be kept.
        """
        path, agent = self._path, live.agent
        if not isinstance(agent, Summariser) or not path.turns or live.overdrawn() is not None:
            return
        grown = tokens(path.walk, path.summaries, path.seen)
        if grown <= self._threshold:
            return
        tried = latest(path.walk, path.summaries)
        if tried is not None and told(tried).failed:
            return
        where = cut(path.walk, path.summaries, self._config.keep)
        if where is not None:
            await self._make(agent, live, where, grown)

    async def _make(self, agent: Summariser, live: Live, where: tuple[int, int, int], grown: int) -> None:
        path = self._path
        end, first, last = where
        replaced = context(path.walk[:end], in_force(path.walk, path.summaries))
        opening = next(place for place, node in enumerate(path.walk) if takes_turn(node))
        most = size(replaced[opening:])
        fault, turn, started, spent = "", Turn(message=assistant()), time.time(), NO_USAGE
        attempt = 0
        while attempt == 0 or (fault and attempt < ATTEMPTS):
            seen = live.view(replaced)
            sampling = msgspec.structs.replace(
                seen.sampling, max_tokens=self._config.max_tokens, seed=((seen.sampling.seed or 0) + attempt) % SEEDS
            )
            attempt, began = attempt + 1, time.monotonic()
            try:
                turn = await agent.summarise(msgspec.structs.replace(seen, sampling=sampling), ASKED)
            except ModelError as error:
                spent = spent + Usage(model_seconds=time.monotonic() - began)
                fault = f"the model failed: {redact(str(error))}"
            else:
                spent = spent + turn.usage
                fault = _fault(turn, most)
        assert path.leaf is not None
        said = Facts(at=path.leaf.id, first=first, last=last, asked=ASKED, failed=fault, attempts=attempt, tokens=grown)
        turn = msgspec.structs.replace(turn, usage=spent)
        await path.summarise(end, turn, started, {SUMMARY: msgspec.to_builtins(said)})

    def attributes(self) -> dict[str, Any]:
        """What the trajectory's record says of it; nothing where no summary was due."""
        on_walk = {node.id for node in self._path.walk}
        made = [node for at, node in self._path.summaries.items() if at in on_walk]
        sound = [node.id for node in made if not told(node).failed]
        failed = [told(node).failed for node in made if told(node).failed]
        return {"summaries": {"nodes": sound, **({"failed": failed[0]} if failed else {})}} if made else {}


def _fault(turn: Turn, most: int) -> str:
    """Why a reply is no summary; "" where it is one."""
    text = turn.message.text.strip()
    if turn.message.tool_calls:
        return "the reply called a tool"
    if not text:
        return "the reply was empty"
    if turn.finish_reason == "length":
        return "the reply was cut off at summary.max_tokens"
    if len(text) >= most:
        return f"the reply had {len(text)} characters, no fewer than the {most} it was to replace"
    return ""
