"""A tool filter: only tools that read, and those whose names the task speaks of (after AgentDojo's tool filter,
Debenedetti et al. 2024, arXiv 2406.13352, where a model chooses them)."""

from __future__ import annotations

import re

import msgspec

from silva.envs import Observation
from silva.redteam.defences.defence import Defence, Guarded
from silva.rollout.risks import risks_of
from silva.tree import Message, assistant, call

_WORDS = re.compile(r"[A-Z]?[a-z]+")


class ToolFilter(Defence):
    """Takes away tools that do something risky which the task does not speak of."""

    name = "tool_filter"
    summary = "risky tools that the task does not speak of are taken away"

    async def show(self, observation: Observation, guarded: Guarded) -> Observation:
        """See `Defence`."""
        if observation.tools is None:
            return observation
        kept = tuple(tool for tool in observation.tools if not unasked(tool.name, guarded.task))
        return msgspec.structs.replace(observation, tools=kept)

    async def refuse(self, action: Message, guarded: Guarded) -> str:
        """See `Defence`."""
        asked = next((each.name for each in action.tool_calls if unasked(each.name, guarded.task)), None)
        return f"the tool {asked} is not for this task" if asked else ""


def unasked(name: str, task: str) -> bool:
    """Whether a tool is risky and none of its name's words is spoken of in a task."""
    if not risks_of(assistant("", call(name, {}))):
        return False
    spoken = {_stem(word) for word in _WORDS.findall(task)}
    return not any(_stem(word) in spoken for word in _WORDS.findall(name))


def _stem(word: str) -> str:
    return word.lower()[:5].rstrip("s")
