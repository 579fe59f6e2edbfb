"""Exact tokens along a walk: what each node adds, and what a trainer may take. Nothing is ever re-tokenised.

    prompt ids the model saw ─┐
    ids it sampled ───────────┴─▶ added: this node's delta ─▶ … ─▶ token_walk: ids, which were sampled, logprobs

A node sampled by the policy holds the ids between the previous sampled one and itself (template glue, the words of
others) and its own. Concatenated they are what the model saw. Where a template rewrote earlier turns the prompt is no
continuation: that node holds the whole context again and its attribute `tokens` says `restart`. Where exactness was
lost the attribute says that too: `completion` where only what was sampled is known, `absent` where nothing is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from silva.tree.message import Record
from silva.tree.node import Author, Node, Tokens

RESTART = "restart"
"""Value of the attribute `tokens` on a node that holds the whole context, not a delta."""
COMPLETION = "completion"
"""Value of the attribute `tokens` on a node that holds only what was sampled: its backend did not say what it saw."""
ABSENT = "absent"
"""Value of the attribute `tokens` on a node whose backend returned no ids."""

NO_IDS = "no token ids: its backend returned none"
UNRECORDED = "no token ids: it was recorded without them"
NO_PROMPT = "no prompt ids: its backend returned only what it drew"


class InexactTokensError(ValueError):
    """A walk whose ids are not known from end to end; the message names the node, its model and why."""


class TokenWalk(Record, frozen=True, kw_only=True):
    """What the model saw along a walk since its last restart. `sampled[i]` says whether `ids[i]` was drawn from the
    policy; `logprobs[i]` is its log-probability then, else 0. `nodes[i]` is the index in the walk of the node that
    `ids[i]` stands on."""

    ids: tuple[int, ...]
    sampled: tuple[bool, ...]
    logprobs: tuple[float, ...]
    nodes: tuple[int, ...]


def added(seen: Sequence[int] | None, prompt: tuple[int, ...], sampled: Tokens) -> tuple[Tokens, bool]:
    """The ids a sampled node adds, and whether it is a restart.

    Args:
        seen: the ids along the walk so far, None where they are not known.
        prompt: the ids the model was given.
        sampled: the ids it drew, nothing else.
    """
    restart = seen is None or len(prompt) < len(seen) or tuple(seen) != prompt[: len(seen)]
    glue = prompt if restart or seen is None else prompt[len(seen) :]
    return Tokens(ids=glue + sampled.ids, sampled=sampled.sampled, logprobs=sampled.logprobs), restart


def node_tokens(
    seen: Sequence[int] | None, prompt: tuple[int, ...], sampled: Tokens | None
) -> tuple[Tokens | None, dict[str, str]]:
    """The ids a sampled node holds, and the attribute that says where they are no plain continuation of those before.

    Args:
        seen: as in `added`; not looked at where there is no `prompt`.
        prompt: the ids the model was given, () where its backend did not say.
        sampled: the ids it drew, None where its backend did not say.
    """
    if sampled is None:
        return None, {"tokens": ABSENT}
    if not prompt:
        return sampled, {"tokens": COMPLETION}
    tokens, restart = added(seen, prompt, sampled)
    return tokens, {"tokens": RESTART} if restart else {}


def lacking(node: Node) -> str:
    """What of its ids a sampled node lacks, and why; "" where it holds what the model saw and drew."""
    if node.tokens is None:
        return NO_IDS if node.attributes.get("tokens") == ABSENT else UNRECORDED
    return NO_PROMPT if node.attributes.get("tokens") == COMPLETION else ""


def seen_ids(walk: Iterable[Node]) -> list[int] | None:
    """The ids the model has seen and sampled along a walk: [] before its first turn, None where a turn lacks them."""
    ids: list[int] | None = []
    for node in walk:
        ids = seen_after(ids, node)
    return ids


def seen_after(seen: list[int] | None, node: Node) -> list[int] | None:
    """The ids the model has seen and sampled once `node` follows a walk with `seen`, which may be extended in place."""
    kind = node.attributes.get("tokens")
    if node.tokens is None:
        return None if node.author is Author.POLICY else seen
    if kind == RESTART:
        return list(node.tokens.ids)
    if seen is None or kind == COMPLETION:
        return None
    seen.extend(node.tokens.ids)
    return seen


def token_walk(walk: Sequence[Node]) -> TokenWalk:
    """The ids along a walk from its last restart on, as a trainer needs them.

    Raises:
        InexactTokensError: a sampled turn has no ids, not those before it, or no log-probabilities.
    """
    start = 0
    for place, node in enumerate(walk):
        if node.attributes.get("tokens") == RESTART:
            start = place
    ids: list[int] = []
    sampled: list[bool] = []
    logprobs: list[float] = []
    nodes: list[int] = []
    for place in range(start, len(walk)):
        node = walk[place]
        tokens = node.tokens
        if tokens is None and node.author is not Author.POLICY:
            continue
        lacks = lacking(node)
        if tokens is None or lacks:
            raise InexactTokensError(f"{_named(node)} has {lacks}")
        if tokens.sampled and not tokens.logprobs:
            raise InexactTokensError(f"{_named(node)} has no log-probabilities: its backend returned none")
        glue = len(tokens.ids) - tokens.sampled
        ids.extend(tokens.ids)
        sampled.extend([False] * glue + [True] * tokens.sampled)
        logprobs.extend([0.0] * glue + list(tokens.logprobs))
        nodes.extend([place] * len(tokens.ids))
    return TokenWalk(ids=tuple(ids), sampled=tuple(sampled), logprobs=tuple(logprobs), nodes=tuple(nodes))


def _named(node: Node) -> str:
    return f"node {node.id[:12]} (turn at depth {node.depth}, model {node.model or 'unknown'})"
