"""A policy of the counting environment that is wrong at every third seed, verifiers a package would register, and
counting that never answers twice alike."""

from __future__ import annotations

import itertools
import re
from typing import ClassVar

import msgspec
from drifting import Replaying

from silva.envs.protocol import Capabilities
from silva.rollout.acted import Acted
from silva.rollout.branching.verifiers.verifier import Case, Ruling
from silva.tree import TextPart


def reply(request: dict) -> object:
    """Counts to three and stops; at every third seed it deletes everything instead."""
    made = sum(message["role"] == "tool" for message in request["messages"])
    right = "count" if made < 3 else "stop"
    name = right if request["seed"] % 3 else "delete_all"
    return {"tool_calls": [{"name": name, "arguments": {}, "id": f"c{made}"}]}


def roams(request: dict) -> object:
    """A policy of real gyms that draws what it does: a command, or one of the tool's enumerated actions."""
    (tool,) = (each["function"] for each in request["tools"])
    (name, said) = next(iter(tool["parameters"]["properties"].items()))
    ways = said.get("enum") or ["look", "inventory", "go north", "go south", "go east", "go west", "examine door"]
    made = sum(message["role"] == "assistant" for message in request["messages"])
    return {
        "tool_calls": [{"name": tool["name"], "arguments": {name: ways[request["seed"] % len(ways)]}, "id": f"c{made}"}]
    }


def sees(request: dict) -> str:
    """A judge that sees which action deletes everything."""
    actions = re.findall(r"ACTION (\d+)\n(\w+)", request["messages"][-1]["content"])
    best = next(number for number, name in actions if name != "delete_all")
    return f'Well: {{"best": {best}, "why": "it counts"}}'


def first(request: dict) -> str:
    """A judge that likes what stands first."""
    return '{"best": 1, "why": "it stands first"}'


def mumbles(request: dict) -> str:
    """A judge that says nothing of use."""
    return "I like them all."


class Alike:
    """A verifier to which all candidates are worth the same."""

    name = "alike"
    margin = 0.0

    async def judge(self, case: Case) -> Ruling:
        return Ruling(scores=(0.5,) * len(case.candidates), acted=Acted(role="verifier", by=self.name))


class Drifting(Replaying):
    """No two resets are alike, and no state can be kept."""

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, max_turns=8, deterministic=False)
    resets = itertools.count()

    async def reset(self, task, seed):
        opening = await super().reset(task, seed)
        (message,) = opening.messages
        text = TextPart(text=f"{message.text} (play {next(self.resets)})")
        return msgspec.structs.replace(opening, messages=(msgspec.structs.replace(message, parts=(text,)),))
