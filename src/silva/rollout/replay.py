"""Stored actions taken again in a live environment, and the first place where it answers otherwise.

    walk ─▶ reset ─▶ same opening? ─▶ step(stored action) ─▶ same answer? ─▶ … ─▶ Replayed (divergence or none)

A stored turn is a policy node and the environment's nodes behind it. What an attacker (or another stage) wrote in the
environment's place is not compared; what a person, a summariser or a verifier said is passed over, and an action that a
person took is taken again. Clocks and costs are not compared; messages, tools and rewards are, and a notice that stands
before an answer (`silva.envs.notice`) is none of the answer.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from silva.envs.notice import untold
from silva.envs.protocol import Observation
from silva.rollout.guided_nodes import REWRITES, answers, not_taken, takes_turn
from silva.rollout.planting import plant_again
from silva.tree import Author, ImagePart, Message, Node, Record, Task, Tool


class Playable(Protocol):
    """As much of a leased environment as a replay needs."""

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin the task."""
        ...

    async def step(self, action: Message) -> Observation:
        """Take the action."""
        ...


class Retakable(Playable, Protocol):
    """As much of one as may stand in the middle of its task."""

    async def take_again(self, action: Message) -> Observation:
        """Take an action whose answer is stored; what a restore has to tell waits for the first that is not."""
        ...


class Divergence(Record, frozen=True, kw_only=True):
    """The first difference. `turn` counts actions taken (0: the reset), `depth` is the place in the walk.

    `what` is one of: message, missing (the environment said less), extra (it said more), tools, reward, ended (it was
    done while the walk goes on), role (it speaks to another agent). `stored` and `seen` are the two texts.
    """

    what: str
    turn: int
    depth: int
    stored: str
    seen: str
    node_id: str = ""

    def __str__(self) -> str:
        return f"turn {self.turn}, message {self.depth}: {self.what} differs"


class Replayed(Record, frozen=True, kw_only=True):
    """What a replay saw. `turns` is how many actions were taken since the task began; the observations
    begin with that of the reset, if there was one."""

    observations: tuple[Observation, ...]
    turns: int
    divergence: Divergence | None = None

    @property
    def last_observation(self) -> Observation:
        """What the environment said last: where a resumed episode goes on."""
        return self.observations[-1]


async def replay(env: Playable, task: Task, seed: int, walk: Sequence[Node]) -> Replayed:
    """Reset the environment and take the walk's actions again, up to the first divergence.

    Args:
        env: a live environment that is nobody else's.
        task: the task of the walk.
        seed: the seed of the trajectory.
        walk: its nodes, root first. It may end in an action whose answer was never stored, or in part of an answer.

    Raises:
        EnvError: the environment or its host failed.
    """
    opening, turns = _turns(walk)
    first = await env.reset(task, seed)
    await plant_again(env, opening)
    return await _taken_again(env, env.step, turns, 0, [first], _compare(opening, first, 0, cut=not turns))


async def replay_roles(env: Playable, task: Task, seed: int, walks: Mapping[str, Sequence[Node]]) -> Replayed:
    """The same for an episode of several agents: the environment says whose turn is next, and that role's next action
    is taken again.

    Args:
        env: a live environment that is nobody else's.
        task: the task of the walks.
        seed: the seed of the trajectory.
        walks: each role's, root first; the first is the one whom an observation without a role is said to.

    Raises:
        EnvError: the environment or its host failed.
    """
    heard: dict[str, list[list[Node]]] = {}
    acts: dict[str, list[Node]] = {}
    for role, walk in walks.items():
        opening, turns = _turns(walk)
        heard[role] = [opening, *(answer for _, answer in turns)]
        acts[role] = [action for action, _ in turns]
    first, taken, seen = next(iter(walks)), 0, list[Observation]()
    observation = await env.reset(task, seed)
    while True:
        role = observation.role or first
        seen.append(observation)
        left = [node for each in acts.values() for node in each]
        if not heard.get(role):
            stored = f"(no more is said to {role})" if role in walks else f"(nothing is said to {role})"
            found = Divergence(what="role", turn=taken, depth=0, stored=stored, seen=_said(observation))
            return Replayed(observations=tuple(seen), turns=taken, divergence=found)
        stored_nodes = heard[role].pop(0)
        await plant_again(env, stored_nodes)
        found = _compare(stored_nodes, observation, taken, cut=not acts[role])
        over = observation.done or observation.truncated
        if found is None and over and left:
            text = left[0].message.text or _calls(left[0].message)
            seen_text = "(the episode is over)"
            found = Divergence(
                what="ended", turn=taken, depth=left[0].depth, stored=text, seen=seen_text, node_id=left[0].id
            )
        if found is not None or over or not acts[role]:
            return Replayed(observations=tuple(seen), turns=taken, divergence=found)
        observation = await env.step(acts[role].pop(0).message)
        taken += 1


def _said(observation: Observation) -> str:
    return "\n".join(map(shown, observation.messages))


async def retake(env: Retakable, walk: Sequence[Node], start: int) -> Replayed:
    """Take a walk's actions again from `start` on, in an environment that stands where the nodes before it end.

    Args:
        env: a live environment in that state.
        walk: its nodes, root first.
        start: the place of the first node that is to come: an action, or the end of the walk.

    Raises:
        EnvError: the environment or its host failed.
    """
    _, before = _turns(walk[:start])
    _, turns = _turns(walk[start:])
    return await _taken_again(env, env.take_again, turns, len(before), [], None)


async def _taken_again(
    env: Playable,
    again: Callable[[Message], Awaitable[Observation]],
    turns: Sequence[tuple[Node, list[Node]]],
    taken: int,
    seen: list[Observation],
    found: Divergence | None,
) -> Replayed:
    whole = taken + len(turns)
    for number, (action, answer) in enumerate(turns, taken + 1):
        if found is not None:
            break
        if seen and (seen[-1].done or seen[-1].truncated):
            found = Divergence(
                what="ended",
                turn=taken,
                depth=action.depth,
                stored=action.message.text or _calls(action.message),
                seen="(the episode is over)",
                node_id=action.id,
            )
            break
        seen.append(await (again if answer else env.step)(action.message))
        await plant_again(env, answer)
        taken = number
        found = _compare(answer, seen[-1], number, cut=number == whole)
    return Replayed(observations=tuple(seen), turns=taken, divergence=found)


def _turns(walk: Sequence[Node]) -> tuple[list[Node], list[tuple[Node, list[Node]]]]:
    opening: list[Node] = []
    turns: list[tuple[Node, list[Node]]] = []
    refused = not_taken(walk)
    for node in walk:
        if takes_turn(node):
            if node.id not in refused:
                turns.append((node, []))
        elif answers(node):
            (turns[-1][1] if turns else opening).append(node)
    return opening, turns


def _compare(stored: Sequence[Node], seen: Observation, turn: int, *, cut: bool) -> Divergence | None:
    """The first difference between stored nodes and an observation. `cut`: the nodes may stop short."""
    for place, node in enumerate(stored):
        if place >= len(seen.messages):
            return _difference("missing", turn, node, shown(node.message), "(nothing)")
        message = seen.messages[place]
        stored_message = untold(node.message, node.attributes)
        if _own(node) and stored_message != message:
            return _difference("message", turn, node, shown(stored_message), shown(message))
    if len(seen.messages) > len(stored) and not cut:
        extra = seen.messages[len(stored)]
        depth = stored[-1].depth + 1 if stored else 0
        return Divergence(what="extra", turn=turn, depth=depth, stored="(nothing)", seen=shown(extra))
    if not stored:
        return None
    first, last = stored[0], stored[-1]
    if _own(first) and first.tools != seen.tools:
        return _difference("tools", turn, first, _tools(first.tools), _tools(seen.tools))
    whole = len(stored) == len(seen.messages)
    if whole and _own(last) and not _same_reward(last.reward, seen.reward):
        return _difference("reward", turn, last, str(last.reward), str(seen.reward))
    return None


def _own(node: Node) -> bool:
    """Whether the environment's own words stand there."""
    return node.author is Author.ENVIRONMENT and REWRITES not in node.attributes


def shown(message: Message) -> str:
    """A message as text to be read and compared: its role, its words, its calls."""
    lines = [f"{message.role}: {message.text}"]
    if message.thinking:
        lines.append(f"thinking: {message.thinking}")
    if message.tool_calls:
        lines.append(_calls(message))
    pictures = [part.hash[:12] for part in message.parts if isinstance(part, ImagePart)]
    if pictures:
        lines.append(f"images: {', '.join(pictures)}")
    if message.tool_call_id is not None or message.name is not None:
        lines.append(f"(answers {message.tool_call_id or '-'}, name {message.name or '-'})")
    return "\n".join(lines)


def _calls(message: Message) -> str:
    return "\n".join(f"{call.name}({call.arguments})" for call in message.tool_calls)


def _tools(tools: tuple[Tool, ...] | None) -> str:
    return "(as before)" if tools is None else ", ".join(tool.name for tool in tools) or "(none)"


def _same_reward(stored: float | None, seen: float | None) -> bool:
    if stored is None or seen is None:
        return stored is seen
    return math.isclose(stored, seen, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(stored) and math.isnan(seen))


def _difference(what: str, turn: int, node: Node, stored: str, seen: str) -> Divergence:
    return Divergence(what=what, turn=turn, depth=node.depth, stored=stored, seen=seen, node_id=node.id)
