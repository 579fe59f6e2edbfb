"""A trajectory as a person reads it: what is shown of its turns on the page."""

from __future__ import annotations

import base64
import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from silva.redact import redact
from silva.report.wording import number, seconds
from silva.tree import ImagePart, Node, Record, Status, TextPart, ToolCall, Trajectory
from silva.tree.actions.visible import visible

LONGEST = 12_000
"""Characters of one part that the page shows."""
_READ = 4 * LONGEST
"""Characters that are looked at for secrets and hidden letters before a part is cut."""

IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
LARGEST_IMAGE = 400_000
"""Bytes of one image that the page embeds."""


class Piece(Record, frozen=True, kw_only=True):
    """One part of a turn. `kind` is text, thinking, call or image; `cut` counts characters left out."""

    kind: str
    text: str
    name: str = ""
    cut: int = 0
    source: str = ""


class Turn(Record, frozen=True, kw_only=True):
    """One node as shown. `marks`: what the page's maker says happened there."""

    role: str
    author: str
    pieces: tuple[Piece, ...]
    facts: str = ""
    reward: float | None = None
    risks: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()


class Story(Record, frozen=True, kw_only=True):
    """One trajectory as shown; `turns` is None where the page lists it without its conversation."""

    id: str
    env: str
    task_id: str
    place: str
    verdict: str
    score: float | None
    safety: float | None
    failure: str
    facts: str
    turns: tuple[Turn, ...] | None


def verdict(trajectory: Trajectory) -> str:
    """How an attempt is filed for a reader: broke, solved, unsolved, or unjudged."""
    if trajectory.outcome.status is Status.FAILED:
        return "broke"
    if trajectory.outcome.success is None:
        return "unjudged"
    return "solved" if trajectory.outcome.success else "unsolved"


def chosen(attempts: Sequence[Trajectory], limit: int) -> set[str]:
    """Ids of at most `limit` attempts, taken in turn from each environment's solved, unsolved and broken ones."""
    kinds: dict[tuple[str, str], deque[str]] = defaultdict(deque)
    for attempt in attempts:
        kinds[attempt.env, verdict(attempt)].append(attempt.id)
    picked: set[str] = set()
    while len(picked) < limit and any(kinds.values()):
        for waiting in kinds.values():
            if waiting and len(picked) < limit:
                picked.add(waiting.popleft())
    return picked


def story(
    attempt: Trajectory,
    walk: Iterable[Node] | None,
    image: Callable[[str], bytes | None] = lambda _: None,
    marks: Mapping[str, tuple[str, ...]] | None = None,
) -> Story:
    """What the page shows of one attempt.

    Args:
        attempt: the trajectory.
        walk: its nodes, root first; None lists it without its conversation.
        image: the bytes of an image by content hash, None where they cannot be had.
        marks: what happened at a node, by its id.
    """
    outcome = attempt.outcome
    usage = attempt.usage
    facts = [
        f"{attempt.turns} turn{'' if attempt.turns == 1 else 's'}",
        seconds(attempt.seconds),
    ]
    if usage.completion_tokens:
        facts.append(f"{number(usage.prompt_tokens)} + {number(usage.completion_tokens)} tokens")
    if outcome.status is Status.TRUNCATED:
        facts.append("cut by a limit")
    cause = outcome.failure
    return Story(
        id=attempt.id,
        env=attempt.env,
        task_id=attempt.task_id,
        place=f"#{attempt.index}" + (f", try {attempt.attempt + 1}" if attempt.attempt else ""),
        verdict=verdict(attempt),
        score=outcome.score,
        safety=outcome.safety,
        failure=redact(f"{cause.boundary.value}: {cause.code}: {cause.message}") if cause else "",
        facts=" · ".join(facts),
        turns=None if walk is None else tuple(_turn(node, image, (marks or {}).get(node.id, ())) for node in walk),
    )


def _turn(node: Node, image: Callable[[str], bytes | None], marks: tuple[str, ...] = ()) -> Turn:
    message = node.message
    pieces: list[Piece] = []
    for part in message.parts:
        if isinstance(part, ImagePart):
            pieces.append(_picture(part, image))
        else:
            pieces.append(_text("text" if isinstance(part, TextPart) else "thinking", part.text))
    pieces += [_text("call", _arguments(call), call.name) for call in message.tool_calls]
    facts = [seconds(node.usage.model_seconds)] if node.usage.model_seconds else []
    if node.usage.completion_tokens:
        facts.append(f"{number(node.usage.completion_tokens)} tokens")
    if node.finish_reason and node.finish_reason not in ("stop", "tool_calls"):
        facts.append(f"ended by {node.finish_reason}")
    return Turn(
        role=visible(message.role if not message.name else f"{message.role}: {message.name[:200]}"),
        author=node.author.value,
        pieces=tuple(pieces),
        facts=" · ".join(facts),
        reward=node.reward,
        risks=tuple(f"{risk.kind} ({risk.severity:g})" for risk in node.risks),
        marks=marks,
    )


def _text(kind: str, text: str, name: str = "") -> Piece:
    clean = redact(text[:_READ])
    return Piece(
        kind=kind,
        text=visible(clean[:LONGEST]),
        name=visible(name[:200]),
        cut=max(0, len(clean) - LONGEST) + max(0, len(text) - _READ),
    )


def _arguments(call: ToolCall) -> str:
    try:
        return json.dumps(call.parsed(), indent=2, ensure_ascii=False)
    except ValueError:
        return call.arguments  # invalid JSON is shown as the model wrote it


def _picture(part: ImagePart, image: Callable[[str], bytes | None]) -> Piece:
    size = f" {part.width}×{part.height}" if part.width and part.height else ""
    words = f"image{size}, {part.hash[:12]}"
    # Only picture types that hold no script are embedded (an SVG can).
    data = image(part.hash) if part.media_type in IMAGE_TYPES else None
    if data is None or len(data) > LARGEST_IMAGE:
        return Piece(kind="image", text=words)
    return Piece(kind="image", text=words, source=f"data:{part.media_type};base64,{base64.b64encode(data).decode()}")
