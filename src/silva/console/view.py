"""A node as pages show it: one light line in the list of turns, and in full when it is unfolded.

All of it is text. What the agent, an environment or a person wrote is never markup to anybody.
"""

from __future__ import annotations

from typing import Any

from silva.console.attempt import brief
from silva.console.calls import calls
from silva.console.marking import ansi, markdown
from silva.tree import ImagePart, Message, Node, TextPart, ThinkingPart

MOST_TEXT = 200_000
"""Characters of one part that a page is given; what is cut is counted."""

_FACTS = ("refused", "refuses", "instead_of", "asked", "snapshot", "stopped", "summary", "back", "word")


def line(node: Node) -> dict[str, Any]:
    """The line of a node: who, what role, what in short."""
    made: dict[str, Any] = {
        "id": node.id,
        "parent": node.parent_id,
        "depth": node.depth,
        "author": str(node.author),
        "role": node.message.role,
        "slot": node.slot,
        "run": node.run_id,
        "at": node.started,
        "text": brief(node, 400),
    }
    if node.message.tool_calls:
        made["calls"] = [call.name for call in node.message.tool_calls]
    spent = spending(node)
    if spent:
        made["spent"] = spent
    if node.reward is not None:
        made["reward"] = node.reward
    if node.risks:
        made["risks"] = [f"{risk.kind} {risk.severity:g}" for risk in node.risks]
    if node.snapshot_id:
        made["snapshot"] = node.snapshot_id[:12]
    marks = {name: _short(value) for name in _FACTS if name != "snapshot" and (value := node.attributes.get(name))}
    if marks:
        made["marks"] = marks
    return made


def whole(node: Node) -> dict[str, Any]:
    """A node in full: its parts, calls, costs and facts."""
    usage = node.usage
    tokens = node.tokens
    return {
        **line(node),
        **said(node.message),
        "answers": node.message.tool_call_id,
        "tools": None if node.tools is None else [tool.name for tool in node.tools],
        "facts": {
            "model": node.model,
            "version": node.policy_version,
            "finish": node.finish_reason,
            "prompt tokens": usage.prompt_tokens,
            "completion tokens": usage.completion_tokens,
            "usd": usage.usd,
            "model seconds": usage.model_seconds,
            "environment seconds": usage.env_seconds,
            "ids kept": None if tokens is None else len(tokens.ids),
            "ids sampled": None if tokens is None else tokens.sampled,
        },
    }


def spending(node: Node) -> dict[str, Any]:
    """What a turn took: seconds of the `model` and the `environment`, tokens `read` (`cached` of them) and `written`,
    `usd`; what is none is left out."""
    usage = node.usage
    given = {
        "model": round(usage.model_seconds, 3),
        "environment": round(usage.env_seconds, 3),
        "read": usage.prompt_tokens,
        "cached": usage.cached_tokens,
        "written": usage.completion_tokens,
        "usd": usage.usd,
    }
    return {name: value for name, value in given.items() if value}


def said(message: Message) -> dict[str, Any]:
    """A message's parts and calls. Of a text, `blocks` are what it says as Markdown (an agent's, a person's), `lines`
    its coloured lines (what a tool answered); where it has neither, it is drawn as it stands."""
    parts: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, ImagePart):
            parts.append({"kind": "image", "hash": part.hash, "media_type": part.media_type})
            continue
        kind = "thinking" if isinstance(part, ThinkingPart) else "text"
        text = part.text[:MOST_TEXT]
        made: dict[str, Any] = {"kind": kind, "text": text, "cut": max(0, len(part.text) - MOST_TEXT)}
        if message.role == "tool":
            lines = ansi(text)
            made |= {"lines": lines} if lines else {}
        elif kind == "text":
            blocks = markdown(text)
            made |= {"blocks": blocks} if blocks else {}
        parts.append(made)
    return {"role": message.role, "parts": parts, "tool_calls": calls(message)}


def text_of(node: Node) -> str:
    """Everything in a node that a search looks through."""
    message = node.message
    parts = [part.text for part in message.parts if isinstance(part, TextPart | ThinkingPart)]
    return "\n".join([*parts, *(f"{call.name} {call.arguments}" for call in message.tool_calls)])


def _short(value: object) -> object:
    if isinstance(value, str | int | float | bool):
        return value if not isinstance(value, str) else value[:200]
    if isinstance(value, dict):
        return {str(key): _short(each) for key, each in list(value.items())[:12]}
    if isinstance(value, list | tuple):
        return [_short(each) for each in value[:12]]
    return str(value)[:200]
