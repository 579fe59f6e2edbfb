"""The result rows of verifiers before traces: `prompt`, `completion`, `reward`, and the trajectory where it was saved.

    row ─▶ prompt + completion ─▶ a vertex a message; trajectory[k].tokens ─▶ ids of the k-th reply ─▶ Rollout ─▶ Bundle

Ids are taken only where the steps of the trajectory stand for the replies of the completion one to one. A reply whose
`completion_mask` leaves tokens out is masked as a whole. The columns stay under `attributes["verifiers"]`.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from silva.tree.exact import RESTART, added
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.draft import Origin, Turn
from silva.tree.formats.errors import FormatError
from silva.tree.formats.graph import Rollout, Vertex, grow_graph, straight
from silva.tree.formats.images import Loader
from silva.tree.formats.rows import as_list, as_object, filled, message, number, parsed, typed
from silva.tree.formats.verifiers_read import BOUNDARIES, KEPT, flat_calls, tool
from silva.tree.message import Json, Tool
from silva.tree.node import Author, Tokens, Usage
from silva.tree.outcome import Boundary, Failure, Outcome, Status
from silva.tree.run import Run
from silva.tree.task import Task


class _StepTokens(msgspec.Struct, frozen=True):
    prompt_ids: list[int]
    completion_ids: list[int]
    completion_mask: list[int] = []
    completion_logprobs: list[float] = []


class _Step(msgspec.Struct, frozen=True):
    tokens: _StepTokens | None = None
    reward: float | None = None
    is_truncated: bool | None = None


def read_row(row: Json, name: str, line: int, run: str, load: Loader | None) -> Bundle:
    """The records of one result row.

    Raises:
        FormatError: with the line and the field.
    """
    blobs: dict[str, bytes] = {}
    tools = _tools(row, name, line)
    vertices: list[Vertex] = []
    for key in ("prompt", "completion"):
        for place, value in enumerate(_messages(row[key], key, name, line)):
            vertices.append(_vertex(value, key, place, name, line, load, blobs))
    if vertices and tools:
        first = vertices[0]
        vertices[0] = msgspec.structs.replace(first, turn=msgspec.structs.replace(first.turn, tools=tools))
    used = _with_tokens(vertices, row, name, line)
    reward = number(row.get("reward"))
    usage = as_object(row.get("token_usage"))
    rollout = Rollout(
        origin=Origin(run=Run(id=run), task=_task(row)),
        vertices=straight(vertices),
        leaf=len(vertices) - 1 if vertices else None,
        outcome=_outcome(row, reward),
        reward=reward or 0.0,
        judge=KEPT,
        usage=Usage(
            prompt_tokens=int(number(usage.get("input_tokens")) or 0),
            completion_tokens=int(number(usage.get("output_tokens")) or 0),
        ),
        attributes={KEPT: {"row": _kept(row, used)}},
        blobs=blobs,
    )
    return grow_graph(rollout, name, line)


def _messages(value: Any, key: str, name: str, line: int) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, str):
        return [{"role": "user" if key == "prompt" else "assistant", "content": value}]
    if not isinstance(value, list):
        raise FormatError(name, line, key, "must be text or a list of messages")
    return cast(list[Any], value)


def _vertex(
    value: Any, key: str, place: int, name: str, line: int, load: Loader | None, blobs: dict[str, bytes]
) -> Vertex:
    field = f"{key}[{place}]"
    if not isinstance(value, dict):
        raise FormatError(name, line, field, "is not a message")
    value = cast(Json, value)
    # The older ones saved each call as JSON text, for a column of calls of many shapes fits no table.
    calls: Any = [
        parsed(call, name, line) if isinstance(call, str) else call for call in as_list(value.get("tool_calls"))
    ]
    nested, extras = flat_calls({**value, "tool_calls": calls} if calls else value)
    said, other = message(nested, name, line, field, load, blobs)
    kept = filled({"message": other, "tool_calls": extras})
    sampled = key == "completion" and said.role == "assistant"
    turn = Turn(message=said, attributes={KEPT: kept} if kept else {})
    return Vertex(turn=turn, author=Author.POLICY if sampled else Author.ENVIRONMENT)


def _with_tokens(vertices: list[Vertex], row: Json, name: str, line: int) -> bool:
    """Put the ids of the saved steps on the replies; whether they could be."""
    replies = [place for place, vertex in enumerate(vertices) if vertex.author is Author.POLICY]
    saved = as_list(row.get("trajectory"))
    if not saved or len(saved) != len(replies):
        return False
    seen: list[int] | None = []
    for step_place, (place, raw) in enumerate(zip(replies, saved, strict=True)):
        field = f"trajectory[{step_place}]"
        step = typed(raw, _Step, name, line, field)
        vertex = msgspec.structs.replace(vertices[place], reward=step.reward)
        if step.tokens is None:
            seen = None
        else:
            vertex, seen = _exact(vertex, step.tokens, seen, f"{field}.tokens", name, line)
        vertices[place] = vertex
    return True


def _exact(
    vertex: Vertex, said: _StepTokens, seen: list[int] | None, field: str, name: str, line: int
) -> tuple[Vertex, list[int]]:
    sampled = len(said.completion_ids)
    for key, values in (("completion_logprobs", said.completion_logprobs), ("completion_mask", said.completion_mask)):
        if values and len(values) != sampled:
            raise FormatError(name, line, f"{field}.{key}", f"{len(values)} of them for {sampled} completion ids")
    drawn = Tokens(ids=tuple(said.completion_ids), sampled=sampled, logprobs=tuple(said.completion_logprobs))
    tokens, restart = added(seen, tuple(said.prompt_ids), drawn)
    masked = "" if all(said.completion_mask) else "its completion_mask leaves tokens out"
    attributes = {**vertex.turn.attributes, "tokens": RESTART} if restart else vertex.turn.attributes
    turn = msgspec.structs.replace(vertex.turn, tokens=tokens, attributes=attributes)
    return msgspec.structs.replace(vertex, turn=turn, masked=masked), [*said.prompt_ids, *said.completion_ids]


def _tools(row: Json, name: str, line: int) -> tuple[Tool, ...]:
    return tuple(
        tool(as_object(entry.get("function")) or entry, name, line, f"tool_defs[{place}]")
        for place, entry in enumerate(as_object(entry) for entry in as_list(row.get("tool_defs")))
    )


def _task(row: Json) -> Task | None:
    example = row.get("example_id")
    if example is None:
        return None
    env = str(row.get("task") or row.get("env_id") or "verifiers")
    data = filled({"example_id": example, "answer": row.get("answer"), "info": row.get("info")})
    asked = row.get("prompt")
    words = asked if isinstance(asked, str) else _asked(as_list(asked))
    return Task(id=f"{env}/{example}", env=env, instruction=words, data=data)


def _asked(prompt: list[Any]) -> str:
    said = (as_object(value) for value in prompt)
    return next((str(m["content"]) for m in said if m.get("role") == "user" and isinstance(m.get("content"), str)), "")


def _outcome(row: Json, reward: float | None) -> Outcome:
    metrics = {key: value for key, raw in as_object(row.get("metrics")).items() if (value := number(raw)) is not None}
    score = reward if reward is not None and 0 <= reward <= 1 else None
    error = row.get("error")
    if error:
        said = as_object(error)
        kind = str(said.get("error") or said.get("type") or "error")
        text = str(said.get("message") or said.get("error_chain_repr") or error)
        boundary = BOUNDARIES.get(kind, Boundary.INFRASTRUCTURE)
        failure = Failure(boundary=boundary, code=f"verifiers.{kind}", message=text)
        return Outcome(status=Status.FAILED, score=score, failure=failure, metrics=metrics)
    status = Status.TRUNCATED if row.get("is_truncated") else Status.COMPLETED
    return Outcome(status=status, score=score, metrics=metrics)


def _kept(row: Json, used: bool) -> Json:
    gone = {"prompt", "completion", "tool_defs", *(("trajectory",) if used else ())}
    kept = {key: value for key, value in row.items() if key not in gone}
    if used:
        # The steps without the messages and ids that now stand on the nodes.
        rest = ("prompt", "completion", "tokens", "response")
        steps = [{k: v for k, v in as_object(step).items() if k not in rest} for step in as_list(row.get("trajectory"))]
        kept["trajectory"] = steps
    return kept
