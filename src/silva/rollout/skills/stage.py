"""The stage that gives an agent skills: behind the opening, as a message of its own, whose author is memory.

    opening ─▶ its task's words ─▶ retrieved ─▶ user message "What earlier runs taught: …" (author memory)
    give: index ─▶ names and descriptions alone, and a tool `read_skill` that this stage answers

A resumed episode shows what it was shown before, whatever has become of the bank since.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from msgspec.structs import replace

from silva.envs import Observation
from silva.models.embedding import open_embedder
from silva.rollout.agent import Turn
from silva.rollout.guided_nodes import ADDED
from silva.rollout.live import Live, Refusal
from silva.rollout.skills.bank import Bank
from silva.rollout.skills.retrieval import Found, Retrieval
from silva.rollout.stages.stage import Stage
from silva.tree import Author, Message, Node, Tool, user

READ = "read_skill"
_OPENING = "What earlier runs taught about tasks like this one:"
_INDEX = f"Skills from earlier runs. Call {READ} with a name to read one:"
_TOOL = Tool(
    name=READ,
    description="Read one of the skills listed in the conversation.",
    parameters={"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
)
_LONGEST = 4_000
"""Characters of a task that are held against descriptions."""


class Skills(Stage):
    """Gives skills to one episode.

    Args:
        bank: the folder.
        top: the most skills.
        least: the least cosine between the task and a skill's description.
        embedder: see `silva.models.embedding`.
        give: `text`: whole skills; `index`: names and descriptions, to be read on demand.
        only: the names of the skills that may be given, whatever their status; a trial uses this.
        shuffled: a seed: other skills in the place of those that fit (a control).

    Raises:
        UsageError: the bank or the embedder cannot be used.
    """

    name: ClassVar[str] = "skills"
    author: ClassVar[Author] = Author.MEMORY

    def __init__(
        self,
        bank: str,
        top: int = 3,
        least: float = 0.1,
        embedder: str = "hashed",
        give: Literal["text", "index"] = "text",
        only: list[str] | None = None,
        shuffled: int | None = None,
    ) -> None:
        if top < 1 or give not in ("text", "index"):
            raise ValueError("top is at least 1, give is text or index")
        self._retrieval = _opened(bank, _stamp(bank), top, least, embedder, tuple(only or ()), shuffled)
        self._give = give
        self._given: list[Found] = []

    @property
    def programs(self) -> bool:
        """Programs are given them in what they are asked, as whole texts."""
        return self._give == "text"

    async def on_observation(self, live: Live, observation: Observation) -> Observation:
        """See `Stage`."""
        if live.path.turns or self._given:
            return observation
        asked = live.slot.task.instruction or "\n".join(message.text for message in observation.messages)
        self._given = self._retrieval.find(live.slot.task.env, asked[:_LONGEST])
        if not self._given:
            return observation
        tools = observation.tools
        if self._give == "index":
            tools = (*(observation.tools or ()), _TOOL)
        return replace(observation, messages=(*observation.messages, self._message()), tools=tools)

    async def on_action(self, live: Live, turn: Turn) -> Turn | Refusal:
        """Answer a call that reads a skill; the environment knows nothing of it."""
        calls = turn.message.tool_calls
        if self._give != "index" or not calls or any(each.name != READ for each in calls):
            return turn
        return Refusal(self.name, "\n\n".join(self._read(each.arguments) for each in calls), self.author)

    def recall(self, live: Live, nodes: Sequence[Node]) -> None:
        """See `Stage`: what a resumed episode was given stands in its own node."""
        text = "\n".join(node.message.text for node in nodes if node.attributes.get(ADDED) == self.name)
        said = (f"- {each.name}: " if self._give == "index" else each.body for each in self._retrieval.skills)
        shown = [each for each, words in zip(self._retrieval.skills, said, strict=True) if text and words in text]
        self._given = [Found(skill=each, score=0.0) for each in shown]

    def attributes(self) -> dict[str, Any]:
        """Which skills were given."""
        given = [
            {"name": each.skill.name, "version": each.skill.version, "digest": each.skill.digest, "score": each.score}
            for each in self._given
        ]
        return {self.name: given} if given else {}

    def _message(self) -> Message:
        if self._give == "index":
            lines = (f"- {each.skill.name}: {each.skill.description}" for each in self._given)
            return user("\n".join((_INDEX, *lines)))
        return user(given(self._given))

    def _read(self, arguments: str) -> str:
        try:
            name = json.loads(arguments)["name"]
        except (ValueError, KeyError, TypeError):
            return f'{READ}: say which, as {{"name": NAME}}'
        found = next((each.skill for each in self._given if each.skill.name == name), None)
        return found.body if found else f"{READ}: there is no skill {name}; there are: {', '.join(self._names())}"

    def _names(self) -> list[str]:
        return [each.skill.name for each in self._given]


def given(found: Sequence[Found]) -> str:
    """Whole skills, as an agent reads them behind its task."""
    return "\n\n".join((_OPENING, *(each.skill.body for each in found)))


def _stamp(bank: str) -> tuple[tuple[str, int, int], ...]:
    """What changes when the bank does."""
    paths = sorted(Path(bank).glob("*/SKILL.md"))
    return tuple((path.parent.name, (stat := path.stat()).st_mtime_ns, stat.st_size) for path in paths)


@lru_cache(maxsize=8)
def _opened(
    bank: str,
    stamp: tuple[tuple[str, int, int], ...],
    top: int,
    least: float,
    embedder: str,
    only: tuple[str, ...],
    shuffled: int | None,
) -> Retrieval:
    """A bank's retrieval, made once for all episodes of a run: embedding a bank for each would cost more than turns."""
    opened = Bank.there(Path(bank))
    skills = [opened.get(name) for name in only] if only else opened.kept()
    return Retrieval(skills, open_embedder(embedder), top=top, least=least, shuffled=shuffled)
