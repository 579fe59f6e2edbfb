"""From an episode of verifiers to records: one trajectory for each trace, its message graph node by node.

    Episode ─▶ traces ─▶ nodes (parent, message, token_ids, mask, logprobs) + calls (model, usage) ─▶ Rollout ─▶ Bundle

verifiers keeps what Silva keeps: every message once, linked to its parent, with the ids it adds. Its last branch is the
main conversation, so its leaf is the trajectory's. What has no field of its own stays under `attributes["verifiers"]`.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from silva.tree.formats.bundle import Bundle
from silva.tree.formats.draft import Origin, Turn
from silva.tree.formats.errors import FormatError
from silva.tree.formats.extension import Extension
from silva.tree.formats.graph import Rollout, Vertex, grow_graph
from silva.tree.formats.images import Loader
from silva.tree.formats.rows import as_list, as_object, filled, message, number, typed
from silva.tree.message import Json, Tool
from silva.tree.node import NO_USAGE, Author, Tokens, Usage
from silva.tree.outcome import Boundary, Failure, Outcome, Status
from silva.tree.run import Run
from silva.tree.task import Task

KEPT = "verifiers"
EXTENSION = "silva"
BOUNDARIES = {
    "ProviderError": Boundary.MODEL,
    "HarnessError": Boundary.AGENT,
    "EnvError": Boundary.ENVIRONMENT,
    "TaskError": Boundary.ENVIRONMENT,
    "ToolsetError": Boundary.ENVIRONMENT,
    "SandboxError": Boundary.INFRASTRUCTURE,
    "InterceptionError": Boundary.INFRASTRUCTURE,
    "TunnelError": Boundary.INFRASTRUCTURE,
    "BudgetError": Boundary.BUDGET,
}
LIMITS = {"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "compaction_failed"}
"""Stop conditions by which verifiers itself calls a trace truncated."""

_NODE = {"parent", "message", "sampled", "timestamp", "token_ids", "mask", "logprobs"}


class _Node(msgspec.Struct, frozen=True):
    message: Json
    parent: int | None = None
    tools: list[Json] = []
    sampled: bool = False
    timestamp: float = 0.0
    token_ids: list[int] = []
    mask: list[bool] = []
    logprobs: list[float] = []


class _Tool(msgspec.Struct, frozen=True):
    name: str
    description: str | None = None
    parameters: Json | None = None


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_input_tokens: int | None = None
    cost: float | None = None


class _Span(msgspec.Struct, frozen=True):
    start: float = 0.0
    end: float = 0.0


class _Call(msgspec.Struct, frozen=True):
    node: int | None = None
    model: str | None = None
    finish_reason: str | None = None
    usage: _Usage | None = None
    time: _Span = _Span()


class _Reward(msgspec.Struct, frozen=True):
    score: float
    weight: float = 1.0


class _Error(msgspec.Struct, frozen=True):
    type: str
    message: str = ""


class _Timing(msgspec.Struct, frozen=True):
    start: float = 0.0
    agent: _Span = _Span()
    finalize: _Span = _Span()
    scoring: _Span = _Span()


class _Trace(msgspec.Struct, frozen=True):
    id: str = ""
    nodes: list[_Node] = []
    calls: list[_Call] = []
    agent: Json = {}
    rewards: dict[str, _Reward | None] = {}
    metrics: dict[str, float | None] = {}
    info: Json = {}
    ok: bool = False
    is_timeout: bool = False
    stop_condition: str | None = None
    errors: list[_Error] = []
    timing: _Timing = _Timing()


def read_episode(row: Json, name: str, line: int, run: str, load: Loader | None) -> list[Bundle]:
    """The records of an episode: a bundle for each trace, or one without messages where the episode has no trace.

    Raises:
        FormatError: with the line and the field.
    """
    if "traces" not in row:  # a trace by itself, as `Trace.to_record` gives it
        row = {"task": row.get("task"), "ok": row.get("ok"), "traces": [row]}
    traces: Any = row["traces"]
    if not isinstance(traces, list):
        raise FormatError(name, line, "traces", "must be a list of traces")
    task = as_object(as_object(row.get("task")).get("data"))
    if not traces and EXTENSION in task:
        return [Extension(task[EXTENSION], name, line).rest()]
    found: list[Bundle] = []
    # An episode that broke before any trace is a rollout without messages.
    broken: Json = filled({"errors": row.get("errors"), "ok": row.get("ok")})
    told: list[Any] = cast(list[Any], traces) or [broken]
    for place, value in enumerate(told):
        field = f"traces[{place}]" if traces else ""
        if not isinstance(value, dict):
            raise FormatError(name, line, field, "is not an object")
        trace = cast(Json, value)
        given = as_object(trace.get("info")).get(EXTENSION)
        if given is None:
            found.append(read_trace(row, trace, Origin(run=Run(id=run)), name, line, field, load))
            continue
        extension = Extension(given, name, line)
        found.append(extension.unpack(read_trace(row, trace, extension.origin(), name, line, field, load)))
    return found


def read_trace(
    episode: Json, trace: Json, origin: Origin, name: str, line: int, field: str = "", load: Loader | None = None
) -> Bundle:
    """The records of one trace as a stranger reads it: its extension left aside.

    Raises:
        FormatError: with the line and the field.
    """
    said = typed(trace, _Trace, name, line, field)
    blobs: dict[str, bytes] = {}
    calls: dict[int, tuple[_Call, Json]] = {}
    unplaced: list[Any] = []
    for call, raw in zip(said.calls, as_list(trace.get("calls")), strict=True):
        if call.node is None:
            unplaced.append(raw)
        else:
            calls[call.node] = call, cast(Json, raw)
    vertices: list[Vertex] = []
    joint = f"{field}." if field else ""
    for place, node in enumerate(said.nodes):
        at = f"{joint}nodes[{place}]"
        if node.parent is not None and not 0 <= node.parent < place:
            raise FormatError(name, line, f"{at}.parent", f"{node.parent} is no earlier node")
        raw = cast(Json, trace["nodes"][place])
        vertices.append(_vertex(node, raw, calls.get(place), at, name, line, load, blobs))
    if origin.task is None:
        origin = msgspec.structs.replace(origin, task=_task(episode, trace))
    config = as_object(said.agent.get("config"))
    ends = (said.timing.agent.end, said.timing.finalize.end, said.timing.scoring.end)
    rollout = Rollout(
        origin=origin,
        vertices=tuple(vertices),
        leaf=_leaf(vertices),
        outcome=_outcome(said),
        reward=sum(reward.score * reward.weight for reward in said.rewards.values() if reward is not None),
        identity=said.id,
        agent=str(as_object(config.get("harness")).get("id") or said.agent.get("name") or ""),
        model=str(config.get("model") or next((c.model for c in said.calls if c.model), "")),
        judge=KEPT,
        started=said.timing.start,
        finished=max(ends),
        attributes={KEPT: _kept(episode, trace, unplaced)},
        blobs=blobs,
    )
    return grow_graph(rollout, name, line)


def flat_calls(value: Json) -> tuple[Json, list[Json]]:
    """A message with its tool calls nested as OpenAI nests them, and what a call had besides."""
    calls = value.get("tool_calls")
    if not isinstance(calls, list):
        return value, []
    nested: list[Any] = []
    extras: list[Json] = []
    for call in cast(list[Any], calls):
        if isinstance(call, dict) and "function" not in call:
            call = cast(Json, call)
            nested.append({"id": call.get("id"), "function": {k: call[k] for k in ("name", "arguments") if k in call}})
            kept = {k: v for k, v in call.items() if k not in ("id", "name", "arguments") and v is not None}
            extras.append({} if kept == {"type": "function"} else kept)
        else:
            nested.append(call)
            extras.append({})
    return {**value, "tool_calls": nested}, extras if any(extras) else []


def _vertex(
    node: _Node,
    raw: Json,
    called: tuple[_Call, Json] | None,
    at: str,
    name: str,
    line: int,
    load: Loader | None,
    blobs: dict[str, bytes],
) -> Vertex:
    nested, extras = flat_calls(node.message)
    said, other = message(nested, name, line, f"{at}.message", load, blobs)
    kept: Json = filled({key: value for key, value in raw.items() if key not in _NODE and key != "tools"})
    if other:
        kept["message"] = other
    if extras:
        kept["tool_calls"] = extras
    tokens = _tokens(node, kept, at, name, line)
    tools = tuple(tool(entry, name, line, f"{at}.tools[{place}]") for place, entry in enumerate(node.tools))
    usage, model, finish = NO_USAGE, "", ""
    if called is not None:
        call, kept["call"] = called[0], {key: value for key, value in called[1].items() if key != "node"}
        usage, model, finish = _usage(call), call.model or "", call.finish_reason or ""
    turn = Turn(
        message=said,
        tools=tools or None,
        tokens=tokens,
        model=model,
        usage=usage,
        started=node.timestamp,
        attributes={KEPT: kept} if kept else {},
    )
    author = Author.POLICY if node.sampled else Author.ENVIRONMENT
    return Vertex(turn=turn, parent=node.parent, author=author, finish_reason=finish)


def _tokens(node: _Node, kept: Json, at: str, name: str, line: int) -> Tokens | None:
    if not node.token_ids:
        return None
    if len(node.mask) != len(node.token_ids):
        raise FormatError(name, line, f"{at}.mask", f"{len(node.mask)} flags for {len(node.token_ids)} token ids")
    sampled = sum(node.mask)
    if node.logprobs and len(node.logprobs) != sampled:
        raise FormatError(name, line, f"{at}.logprobs", f"{len(node.logprobs)} logprobs for {sampled} sampled ids")
    if not all(node.mask[len(node.mask) - sampled :]):
        # Sampled ids in the middle have no place in a record: the ids stay context, and no one learns from them.
        kept |= {"mask": node.mask, "logprobs": node.logprobs}
        return Tokens(ids=tuple(node.token_ids))
    return Tokens(ids=tuple(node.token_ids), sampled=sampled, logprobs=tuple(node.logprobs))


def _usage(call: _Call) -> Usage:
    seconds = max(call.time.end - call.time.start, 0.0)
    if call.usage is None:
        return Usage(model_seconds=seconds)
    cached = call.usage.cached_input_tokens or 0
    return Usage(
        prompt_tokens=call.usage.prompt_tokens + cached,  # theirs leaves cached ones out, ours does not
        completion_tokens=call.usage.completion_tokens,
        cached_tokens=cached,
        usd=call.usage.cost or 0.0,
        model_seconds=seconds,
    )


def tool(value: Json, name: str, line: int, field: str) -> Tool:
    """A tool as verifiers declares it: name, description and parameters side by side.

    Raises:
        FormatError: it has no name, or a field of the wrong type.
    """
    said = typed(value, _Tool, name, line, field)
    return Tool(name=said.name, description=said.description or "", parameters=said.parameters or {})


def _leaf(vertices: list[Vertex]) -> int | None:
    parents = {vertex.parent for vertex in vertices}
    leaves = [place for place in range(len(vertices)) if place not in parents]
    return leaves[-1] if leaves else None


def _outcome(said: _Trace) -> Outcome:
    total = sum(reward.score * reward.weight for reward in said.rewards.values() if reward is not None)
    scored = any(reward is not None for reward in said.rewards.values())
    found = {name: reward.score for name, reward in said.rewards.items() if reward is not None}
    found |= {name: value for name, value in said.metrics.items() if value is not None}
    metrics = {name: value for name, value in found.items() if number(value) is not None}
    score = total if scored and 0 <= total <= 1 else None
    if said.errors and not said.ok:
        last = said.errors[-1]
        failure = Failure(
            boundary=BOUNDARIES.get(last.type, Boundary.INFRASTRUCTURE),
            code=f"verifiers.{last.type}",
            message=last.message,
        )
        return Outcome(status=Status.FAILED, score=score, failure=failure, metrics=metrics)
    cut = said.calls[-1].finish_reason == "length" if said.calls else False
    limited = said.is_timeout or said.stop_condition in LIMITS or cut
    return Outcome(status=Status.TRUNCATED if limited else Status.COMPLETED, score=score, metrics=metrics)


def _task(episode: Json, trace: Json) -> Task | None:
    given = as_object(trace.get("task")) or as_object(episode.get("task"))
    data = as_object(given.get("data"))
    env = str(as_object(episode.get("env")).get("id") or given.get("type") or "verifiers")
    own: Any = next((data[key] for key in ("id", "name") if data.get(key)), None) or given.get("key")
    if own is None:
        own = data.get("idx")
    if own is None:
        return None
    prompt = data.get("prompt")
    return Task(id=f"{env}/{own}", env=env, instruction=prompt if isinstance(prompt, str) else "", data=data)


def _kept(episode: Json, trace: Json, unplaced: list[Any]) -> Json:
    kept_trace = {k: v for k, v in trace.items() if k not in ("nodes", "calls", "info")}
    info = {key: value for key, value in as_object(trace.get("info")).items() if key != EXTENSION}
    if info:
        kept_trace["info"] = info
    if kept_trace.get("task") == episode.get("task"):
        kept_trace.pop("task", None)
    kept: Json = {"episode": {k: v for k, v in episode.items() if k != "traces"}, "trace": kept_trace}
    if unplaced:
        kept["calls"] = unplaced
    return kept
