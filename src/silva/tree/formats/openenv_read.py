"""From OpenEnv's training traces and collected episodes to records.

    TrainingTrace ─▶ turns: request.messages placed on a graph by their words, the reply below them ─▶ Rollout ─▶ Bundle
    EpisodeRecord ─▶ messages, reward, done ──────────────────────────────────────────────────────▶ Rollout ─▶ Bundle

A turn holds the engine's whole prompt; a node keeps what it adds to it (`silva.tree.exact`). A request that rewrites
earlier messages branches. A `loss_mask` that leaves sampled tokens out masks the node as a whole: its record has them
all, and the mask is kept. What has no field of its own stays under `attributes["openenv"]`.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from silva.tree.exact import RESTART, added
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.chat import read_tool
from silva.tree.formats.draft import Origin, Turn
from silva.tree.formats.errors import FormatError
from silva.tree.formats.graph import Rollout, Vertex, grow_graph, straight
from silva.tree.formats.images import Loader
from silva.tree.formats.rows import as_list, as_object, filled, inside, message, number, typed
from silva.tree.message import Json, Message, Tool
from silva.tree.node import Author, Tokens
from silva.tree.outcome import Outcome, Status
from silva.tree.task import Task

KEPT = "openenv"
EXTENSION = "silva"
VERSION = 1

_TURN = {"node_id", "prompt_token_ids", "completion_token_ids", "per_token_logps", "loss_mask"}


class _Turn(msgspec.Struct, frozen=True):
    prompt_token_ids: list[int]
    completion_token_ids: list[int]
    per_token_logps: list[float]
    loss_mask: list[int]
    request: Json = {}
    response: Json = {}
    metadata: Json = {}
    reward: float | None = None


class _Request(msgspec.Struct, frozen=True):
    messages: list[Json] = []
    tools: list[Json] | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: Json
    finish_reason: str | None = None


class _Response(msgspec.Struct, frozen=True):
    choices: list[_Choice]


def read_trace(turns: list[Any], origin: Origin, name: str, line: int, load: Loader | None = None) -> Bundle:
    """The records of a training trace's turns as a stranger reads them: its extension left aside.

    Raises:
        FormatError: with the line and the field.
    """
    placing = _Placing(name, line, load)
    reward: float | None = None
    for place, raw in enumerate(turns):
        field = f"turns[{place}]"
        said = typed(raw, _Turn, name, line, field)
        placing.turn(said, as_object(raw), field)
        found = number(said.reward if said.reward is not None else said.metadata.get("reward"))
        reward = found if found is not None else reward
    metadata = [as_object(as_object(raw).get("metadata")) for raw in turns]
    if origin.task is None:
        origin = msgspec.structs.replace(
            origin, task=_task(next((m["task_id"] for m in metadata if "task_id" in m), None))
        )
    rollout = Rollout(
        origin=origin,
        vertices=tuple(placing.vertices),
        leaf=placing.last,
        outcome=_outcome(Status.COMPLETED, reward, {}),
        reward=reward or 0.0,
        model=next((str(m["model"]) for m in metadata if m.get("model")), ""),
        judge=KEPT,
        blobs=placing.blobs,
    )
    return grow_graph(rollout, name, line)


def read_episode(row: Json, origin: Origin, name: str, line: int, load: Loader | None = None) -> Bundle:
    """The records of a collected episode as a stranger reads it: its extension left aside.

    Raises:
        FormatError: with the line and the field.
    """
    blobs: dict[str, bytes] = {}
    vertices: list[Vertex] = []
    for place, value in enumerate(as_list(row.get("messages"))):
        said, other = message(value, name, line, f"messages[{place}]", load, blobs)
        author = Author.POLICY if said.role == "assistant" else Author.ENVIRONMENT
        turn = Turn(message=said, attributes={KEPT: {"message": other}} if other else {})
        vertices.append(Vertex(turn=turn, author=author))
    extra = {key: value for key, value in as_object(row.get("extra")).items() if key != EXTENSION}
    kept = {key: value for key, value in row.items() if key not in ("messages", "extra")}
    if extra:
        kept["extra"] = extra
    if origin.task is None:
        origin = msgspec.structs.replace(origin, task=_task(row.get("task")))
    reward = number(row.get("reward"))
    measured = {**as_object(row.get("metrics")), **as_object(row.get("verify_metrics"))}
    status = Status.TRUNCATED if row.get("done") is False else Status.COMPLETED
    rollout = Rollout(
        origin=origin,
        vertices=straight(vertices),
        leaf=len(vertices) - 1 if vertices else None,
        outcome=_outcome(status, reward, measured),
        reward=reward or 0.0,
        identity=str(row.get("episode_id") or ""),
        judge=KEPT,
        attributes={KEPT: {"episode": kept}},
        blobs=blobs,
    )
    return grow_graph(rollout, name, line)


class _Placing:
    """Turns placed one after the other on the graph their requests tell."""

    def __init__(self, name: str, line: int, load: Loader | None) -> None:
        self.vertices: list[Vertex] = []
        self.blobs: dict[str, bytes] = {}
        self.last: int | None = None
        self._name, self._line, self._load = name, line, load
        self._below: dict[int | None, dict[Any, int]] = {}
        self._seen: dict[int, list[int] | None] = {}
        self._tools: dict[int, tuple[Tool, ...]] = {}

    def turn(self, said: _Turn, raw: Json, field: str) -> None:
        """Place the messages of one turn that are new, and its reply."""
        request = typed(said.request, _Request, self._name, self._line, f"{field}.request")
        tools = self._read_tools(request.tools or [], field)
        at: int | None = None
        for place, value in enumerate(request.messages):
            words, other = self._message(value, f"{field}.request.messages[{place}]")
            known = self._below.get(at, {}).get(_identity(words))
            if known is None:
                author = Author.ENVIRONMENT
                at = self._add(Vertex(turn=self._plain(words, other), parent=at, author=author), tools)
            else:
                at = known
        at = self._reply(said, raw, field, at, tools)
        self.last = at

    def _reply(self, said: _Turn, raw: Json, field: str, at: int | None, tools: tuple[Tool, ...]) -> int:
        response = typed(said.response, _Response, self._name, self._line, f"{field}.response")
        if len(response.choices) != 1:
            problem = f"{len(response.choices)} choices, a turn has one"
            raise self._error(f"{field}.response.choices", problem)
        choice = response.choices[0]
        words, other = self._message(choice.message, f"{field}.response.choices[0].message")
        kept = {key: value for key, value in raw.items() if key not in _TURN and key not in ("request", "response")}
        kept |= {
            "node_id": raw.get("node_id"),
            "metadata": {key: value for key, value in said.metadata.items() if key != EXTENSION},
            "request": {key: value for key, value in said.request.items() if key not in ("messages", "tools")},
            "response": {key: value for key, value in said.response.items() if key != "choices"},
            "choice": _rest(said.response["choices"][0]),
            "message": other,
        }
        sampled = self._sampled(said, field)
        tokens, restart = added(self._path_ids(at), tuple(said.prompt_token_ids), sampled)
        mask = said.loss_mask[len(said.prompt_token_ids) :]
        masked = ""
        if not all(mask):
            masked = "its loss_mask leaves sampled tokens out" if any(mask) else "its loss_mask leaves it out"
            kept["loss_mask"] = mask if any(mask) else None
        attributes: Json = {KEPT: filled(kept)}
        if restart:
            attributes["tokens"] = RESTART
        model = said.metadata.get("model")
        vertex = Vertex(
            turn=Turn(
                message=words, tokens=tokens, model=model if isinstance(model, str) else "", attributes=attributes
            ),
            parent=at,
            author=Author.POLICY,
            finish_reason=choice.finish_reason or "",
            masked=masked,
        )
        place = self._add(vertex, tools)
        self._seen[place] = [*said.prompt_token_ids, *said.completion_token_ids]
        return place

    def _sampled(self, said: _Turn, field: str) -> Tokens:
        sampled, prompt = len(said.completion_token_ids), len(said.prompt_token_ids)
        if len(said.per_token_logps) != sampled:
            problem = f"{len(said.per_token_logps)} logprobs for {sampled} sampled ids"
            raise self._error(f"{field}.per_token_logps", problem)
        if len(said.loss_mask) != prompt + sampled:
            problem = f"{len(said.loss_mask)} flags for {prompt + sampled} ids of prompt and completion"
            raise self._error(f"{field}.loss_mask", problem)
        if any(said.loss_mask[:prompt]):
            raise self._error(f"{field}.loss_mask", "trains on the prompt")
        return Tokens(ids=tuple(said.completion_token_ids), sampled=sampled, logprobs=tuple(said.per_token_logps))

    def _path_ids(self, at: int | None) -> list[int] | None:
        while at is not None:
            if at in self._seen:
                return self._seen[at]
            at = self.vertices[at].parent
        return []

    def _add(self, vertex: Vertex, tools: tuple[Tool, ...]) -> int:
        place = len(self.vertices)
        before = self._tools.get(vertex.parent, ()) if vertex.parent is not None else ()
        if tools != before:
            vertex = msgspec.structs.replace(vertex, turn=msgspec.structs.replace(vertex.turn, tools=tools))
        self.vertices.append(vertex)
        self._tools[place] = tools
        self._below.setdefault(vertex.parent, {})[_identity(vertex.turn.message)] = place
        return place

    def _plain(self, words: Message, other: Json) -> Turn:
        return Turn(message=words, attributes={KEPT: {"message": other}} if other else {})

    def _message(self, value: Any, field: str) -> tuple[Message, Json]:
        return message(value, self._name, self._line, field, self._load, self.blobs)

    def _read_tools(self, entries: list[Json], field: str) -> tuple[Tool, ...]:
        found: list[Tool] = []
        for place, entry in enumerate(entries):
            try:
                found.append(read_tool(entry))
            except msgspec.ValidationError as error:
                raise inside(f"{field}.request.tools[{place}]", self._name, self._line, error) from error
        return tuple(found)

    def _error(self, field: str, problem: str) -> FormatError:
        return FormatError(self._name, self._line, field, problem)


def _identity(words: Message) -> Any:
    """What makes two messages the same turn: a harness sends replies back with other spaces in their arguments."""
    calls = tuple((call.name, _canonical(call.arguments)) for call in words.tool_calls)
    shown = tuple(part for part in words.parts if part.__struct_config__.tag != "thinking")
    return words.role, shown, calls, words.tool_call_id


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def _rest(choice: Any) -> Json:
    return {key: value for key, value in as_object(choice).items() if key not in ("message", "finish_reason")}


def _task(given: Any) -> Task | None:
    if isinstance(given, str | int) and not isinstance(given, bool):
        return Task(id=f"openenv/{given}", env="openenv")
    said = as_object(given)
    own = next((said[key] for key in ("task_id", "id", "name") if said.get(key) is not None), None)
    if own is None:
        return None
    words: Any = said.get("instruction") or said.get("prompt")
    return Task(id=f"openenv/{own}", env="openenv", instruction=words if isinstance(words, str) else "", data=said)


def _outcome(status: Status, reward: float | None, measured: Json) -> Outcome:
    metrics = {key: value for key, raw in measured.items() if (value := number(raw)) is not None}
    return Outcome(status=status, score=reward if reward is not None and 0 <= reward <= 1 else None, metrics=metrics)
