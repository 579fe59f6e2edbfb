"""A summary: what stands in a long conversation's place, and what the model then sees (APOLLO, section 3.1.3).

    walk    opening │ turn 1 … turn k │ turn k+1 … turn t │ turn t+1 …
                                      └▶ summary of turns 1 to k (author summariser): a branch behind turn k
    context opening │ the summary, and what came back after turn k │ turn k+1 … turn t │ turn t+1 …

The walk stays whole: what the environment did and the policy took is there to be replayed, judged and shown. A
summary is a branch of it that begins where what it replaces ends, and says at which node of the walk it came into
force. So what the model saw at any turn is a pure function of the walk and the summaries made along it. A summary is
made of the context it was made in, so a later one holds what matters of the earlier. Where the environment begins
another conversation (`silva.envs.protocol.FRESH`), all before it is out of sight, summaries too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil

import msgspec

from silva.envs.protocol import FRESH
from silva.rollout.guided_nodes import WORDS, takes_turn
from silva.rollout.summary_words import BEHIND, SHOWN
from silva.tree import Author, ImagePart, Message, Node, Record, TextPart, user

SUMMARY = "summary"
"""The attribute of a summariser's node, as `Facts` in JSON."""


class Facts(Record, frozen=True, kw_only=True):
    """What a summary says of itself: `at` the node of the walk behind which it came into force; turns `first` to `last`
    are what it stands for; `asked`, the request; `failed` why it is none, so that none is asked for again; `attempts`
    how often the model was asked; `tokens` what the context had grown to."""

    at: str
    first: int
    last: int
    asked: str = ""
    failed: str = ""
    attempts: int = 1
    tokens: int = 0


def facts(node: Node) -> Facts | None:
    """What a summariser's node says of itself; None where it was not made by this engine."""
    said = node.attributes.get(SUMMARY)
    return msgspec.convert(said, Facts) if isinstance(said, dict) else None


def told(node: Node) -> Facts:
    """What a summary of this engine says of itself."""
    said = facts(node)
    assert said is not None, "no summary of this engine"
    return said


def made_at(nodes: Iterable[Node]) -> dict[str, Node]:
    """The summaries among nodes, by the node of the walk at which each came into force."""
    return {said.at: node for node in nodes if node.author is Author.SUMMARISER and (said := facts(node)) is not None}


def latest(walk: Sequence[Node], summaries: Mapping[str, Node]) -> Node | None:
    """The last summary, or last attempt at one, made along a walk (root first)."""
    if not summaries:
        return None
    return next((summaries[node.id] for node in reversed(walk) if node.id in summaries), None)


def in_force(walk: Sequence[Node], summaries: Mapping[str, Node]) -> Node | None:
    """The summary that the model sees at the end of a walk; None where it sees all."""
    if not summaries:
        return None
    made = (summaries[node.id] for node in reversed(walk[begun(walk) :]) if node.id in summaries)
    return next((node for node in made if not told(node).failed), None)


def context(walk: Sequence[Node], summary: Node | None) -> tuple[Message, ...]:
    """What the model is shown at the end of a walk, before an agent puts it into its own form.

    Args:
        walk: root first.
        summary: that in force there, if there is one; it stands on the walk.
    """
    first = begun(walk)
    if summary is None:
        return tuple(node.message for node in walk[first:])
    opened = _opening(walk)
    behind = _place(walk, summary) + 1
    return (
        *(node.message for node in walk[first:opened]),
        _shown(summary, walk[opened:behind]),
        *(node.message for node in walk[behind:]),
    )


def shown_nodes(walk: Sequence[Node], summary: Node | None) -> tuple[Node, ...]:
    """The nodes that the context at the end of a walk is made of: the summary in force in place of what it replaces."""
    if summary is None:
        return tuple(walk[begun(walk) :])
    return (*walk[begun(walk) : _opening(walk)], summary, *walk[_place(walk, summary) + 1 :])


def asked_of(walk: Sequence[Node], summaries: Mapping[str, Node], summary: Node) -> tuple[Message, ...]:
    """What the model was shown when it wrote a summary of a walk: the context as far as it was to be replaced, and the
    request."""
    said = told(summary)
    until = next((place for place, node in enumerate(walk) if node.id == said.at), 0)
    earlier = in_force(walk[:until], summaries)
    return (*context(walk[: _place(walk, summary) + 1], earlier), user(said.asked))


def cut(walk: Sequence[Node], summaries: Mapping[str, Node], keep: float) -> tuple[int, int, int] | None:
    """Where a summary that is made now ends: the length of the walk it replaces, the first and last turn in it.

    Args:
        walk: root first, to where the agent is to act.
        summaries: those made along it.
        keep: the share of the turns that are in the context which stay as they are.

    Returns:
        None where there is no turn to replace.
    """
    summary = in_force(walk, summaries)
    start = _opening(walk) if summary is None else _place(walk, summary) + 1
    taken = [place for place, node in enumerate(walk) if takes_turn(node) and place >= start]
    many = len(taken) - int(len(taken) * keep)
    if not taken or many < 1:
        return None
    end = taken[many] if many < len(taken) else len(walk)
    while WORDS in walk[end - 1].attributes:  # what a person said before the next turn stays as it was said
        end -= 1
    turns = sum(map(takes_turn, walk[:start]))
    before = sum(map(takes_turn, walk[: begun(walk)]))
    return end, before + 1 if summary is None else told(summary).first, turns + many


def tokens(walk: Sequence[Node], summaries: Mapping[str, Node], seen: int | None) -> int:
    """How many tokens the context at the end of a walk has; 0 before the first turn in it, and where nobody counted.

    Up to the last turn it is what was counted: the ids themselves, or what the model reported. What was said since is
    taken to have as many tokens a character as the rest.

    Args:
        walk: root first.
        summaries: those made along it.
        seen: ids the model had seen and drawn after the last turn, where they are known.
    """
    last = next((place for place in range(len(walk) - 1, -1, -1) if walk[place].author is Author.POLICY), None)
    if last is None or any(node.id in summaries for node in walk[last + 1 :]):
        return 0
    usage = walk[last].usage
    counted = seen if seen else usage.prompt_tokens + usage.completion_tokens
    known = size(context(walk[: last + 1], in_force(walk, summaries)))
    since = size(node.message for node in walk[last + 1 :])
    return counted + ceil(since * counted / known) if known else counted


def size(messages: Iterable[Message]) -> int:
    """Characters of messages, calls and their arguments included."""
    return sum(map(_size, messages))


def _shown(summary: Node, replaced: Sequence[Node]) -> Message:
    said = told(summary)
    head = f"{SHOWN.format(first=said.first, last=said.last)}\n{summary.message.text}"
    answer: list[Node] = []
    for node in reversed(replaced):
        if takes_turn(node):
            break
        answer.insert(0, node)
    text = "\n".join(node.message.text for node in answer)
    images = tuple(part for node in answer for part in node.message.parts if isinstance(part, ImagePart))
    tail = f"\n\n{BEHIND.format(last=said.last)}\n{text}" if answer else ""
    return Message(role="user", parts=(TextPart(text=head + tail), *images))


def begun(walk: Sequence[Node]) -> int:
    """Where the conversation begins that is in force at the end of a walk: behind the action before it, else at 0."""
    fresh = next((place for place in range(len(walk) - 1, -1, -1) if FRESH in walk[place].attributes), 0)
    return next((place + 1 for place in range(fresh - 1, -1, -1) if takes_turn(walk[place])), 0)


def _opening(walk: Sequence[Node]) -> int:
    first = begun(walk)
    return next((place for place in range(first, len(walk)) if takes_turn(walk[place])), len(walk))


def _place(walk: Sequence[Node], summary: Node) -> int:
    place = summary.depth - 1
    if not 0 <= place < len(walk) or walk[place].id != summary.parent_id:
        raise ValueError(f"summary {summary.id[:12]} does not stand on this walk")
    return place


def _size(message: Message) -> int:
    return len(message.text) + sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
