"""What the model saw at a turn: the messages as its agent showed them to it, and their ids where they are known.

tree, trajectory, turn ─▶ the walk before the action ─▶ the summary in force ─▶ context ─▶ the agent's form ─▶ Seen
"""

from __future__ import annotations

from collections.abc import Sequence

from silva.errors import UsageError
from silva.rollout.guided_nodes import takes_turn
from silva.rollout.react import render
from silva.rollout.summary import asked_of, context, facts, in_force, made_at
from silva.tree import Author, Message, Node, Record, Tool, Trajectory, Tree, seen_ids


class Seen(Record, frozen=True, kw_only=True):
    """What the model saw before `action`. `tools` were offered besides the messages (an agent that describes them in
    words offers none); `summary` stands in the place of earlier turns; `made` is a summary that was written right
    before this turn, and `asked` what the model saw when it wrote it. `ids` are the prompt's, where they are known."""

    turn: int
    action: Node
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    summary: Node | None = None
    made: Node | None = None
    asked: tuple[Message, ...] = ()
    ids: tuple[int, ...] | None = None


def seen_at(tree: Tree, trajectory: Trajectory, turn: int) -> Seen:
    """What the model saw at a turn of a trajectory.

    Args:
        tree: the trajectory's.
        trajectory: whose.
        turn: from 1; 0 is the last.

    Raises:
        UsageError: it has no such turn.
    """
    walk: Sequence[Node] = tree.walk(trajectory.leaf_id) if trajectory.leaf_id is not None else ()
    taken = [place for place, node in enumerate(walk) if takes_turn(node)]
    if not taken or not 0 <= turn <= len(taken):
        raise UsageError(f"trajectory {trajectory.id[:12]}: has {len(taken)} turns, there is no turn {turn}")
    number = turn or len(taken)
    place = taken[number - 1]
    before, action = walk[:place], walk[place]
    tools: tuple[Tool, ...] = ()
    for node in before:
        tools = tools if node.tools is None else node.tools
    made_by = summaries_of(tree, trajectory, walk)
    summary = in_force(before, made_by)
    behind = taken[number - 2] if number > 1 else -1
    made = next((made_by[node.id] for node in reversed(before[behind + 1 :]) if node.id in made_by), None)
    react = trajectory.agent == "react"

    def form(messages: tuple[Message, ...]) -> tuple[Message, ...]:
        return render(messages, tools) if react else messages

    return Seen(
        turn=number,
        action=action,
        messages=form(context(before, summary)),
        tools=() if react else tools,
        summary=summary,
        made=made,
        asked=form(asked_of(before, made_by, made)) if made is not None else (),
        ids=_prompt(walk[: place + 1]),
    )


def summaries_of(tree: Tree, trajectory: Trajectory, walk: Sequence[Node]) -> dict[str, Node]:
    """The summaries made along a walk, its own before those of the attempts it goes on from, by the node at which each
    came into force."""
    on_walk = {node.id for node in walk}
    sums = sorted(
        (node for node in tree if node.author is Author.SUMMARISER and facts(node) is not None),
        key=lambda node: (node.slot == trajectory.slot, node.slot),
    )
    return {at: node for at, node in made_at(sums).items() if at in on_walk and node.parent_id in on_walk}


def _prompt(walk: Sequence[Node]) -> tuple[int, ...] | None:
    tokens = walk[-1].tokens
    ids = seen_ids(walk)
    if tokens is None or ids is None:
        return None
    return tuple(ids[: len(ids) - tokens.sampled])
