"""The one specification of what every table holds; schema, row builder, row reader and documentation derive from it.

    record ── rows.build ──▶ typed columns (to filter, search and count by) + `rest` (what no column holds exactly)
           ◀── rows.read ──

A column with a `path` stores that field of the record. Where its value does not say the field exactly (an integer
beyond 64 bits, a message of several parts, a NaN inside JSON), `rest` holds the field too and the column is to look
at; `rest` also holds every field that has no column. A column without a path is derived. Adding a field to a record
therefore never loses data, and adding a column to a table needs no migration: old rows read it from their `rest`.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from silva.lake.entry import BlobEntry
from silva.tree import Node, Record, Run, Supervision, Task, TextPart, Trajectory

_json_encode = msgspec.json.Encoder().encode
_json_decode = msgspec.json.Decoder().decode
_ZSTD = {b"lance-encoding:compression": b"zstd"}

_OPTIONAL = ("tokens.", "outcome.failure.")
"""Where a value on the way may be None."""

STRINGS = pa.list_(pa.string())
TOOL_CALLS = pa.list_(pa.struct([("id", pa.string()), ("name", pa.string()), ("arguments", pa.string())]))
RISKS = pa.list_(
    pa.struct([("kind", pa.string()), ("severity", pa.float64()), ("by", pa.string()), ("evidence", pa.string())])
)


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column.

    `get` takes a record to the stored value; `path` is the field it stores (empty: derived); `read` takes the stored
    value back to the field as plain data; `exact` says whether a stored value, not null, holds the field's value
    exactly. `total` columns hold every value exactly, so that nothing need be checked; where Arrow refuses one, `fits`
    says which values it takes. `key`: its place among the columns that tell one record from another (0: none); without
    it parallel merges may insert a record twice.
    """

    name: str
    type: pa.DataType
    doc: str
    get: Callable[[Any], Any]
    path: str = ""
    read: Callable[[Any], Any] | None = None
    exact: Callable[[Any, Any], bool] | None = None
    fits: Callable[[Any], bool] | None = None
    total: bool = False
    index: bool = False
    compress: bool = False
    key: int = 0

    @property
    def field(self) -> pa.Field:
        """The column as a pyarrow field."""
        if self.key:
            position = {b"lance-schema:unenforced-primary-key:position": b"%d" % self.key}
            return pa.field(self.name, self.type, nullable=False, metadata=position)
        return pa.field(self.name, self.type, metadata=_ZSTD if self.compress else None)


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """One table: its record type, its columns, and whether the first or the last record of a key counts."""

    name: str
    record: type[Record]
    columns: tuple[Column, ...]
    last_wins: bool
    doc: str

    @property
    def schema(self) -> pa.Schema:
        """The columns, then `rest` and `segment`."""
        return pa.schema([*(column.field for column in self.columns), REST, SEGMENT])

    @property
    def key(self) -> tuple[str, ...]:
        """Names of the columns that tell one record from another."""
        return tuple(column.name for column in sorted(self.columns, key=lambda column: column.key) if column.key)

    def column(self, name: str) -> Column | None:
        """The column of that name, or of that field path."""
        return next((column for column in self.columns if name in (column.name, column.path)), None)


REST = pa.field("rest", pa.binary(), metadata=_ZSTD)
"""msgpack of the fields that no column holds exactly; null when none."""
SEGMENT = pa.field("segment", pa.int64())
"""Number of the journal segment the row came from."""


def plain(path: str) -> Callable[[Any], Any]:
    """A getter of the field at `path`; None where a value on the way is None."""
    if not path.startswith(_OPTIONAL):
        return attrgetter(path)
    names = path.split(".")

    def get(record: Any) -> Any:
        for name in names:
            if record is None:
                return None
            record = getattr(record, name)
        return record

    return get


def _text(path: str, doc: str, *, name: str = "", index: bool = False, compress: bool = False, key: int = 0) -> Column:
    return Column(
        name=name or path,
        type=pa.string(),
        doc=doc,
        get=plain(path),
        path=path,
        total=True,
        index=index,
        compress=compress,
        key=key or int(path == "id"),
    )


def _integer(path: str, doc: str, *, name: str = "", index: bool = False) -> Column:
    return Column(
        name=name or path,
        type=pa.int64(),
        doc=doc,
        get=plain(path),
        path=path,
        fits=lambda value: -(1 << 63) <= value < 1 << 63,
        total=True,
        index=index,
    )


def _number(path: str, doc: str, *, name: str = "") -> Column:
    return Column(name=name or path, type=pa.float64(), doc=doc, get=plain(path), path=path, total=True)


def _flag(path: str, doc: str, *, name: str = "") -> Column:
    return Column(name=name or path, type=pa.bool_(), doc=doc, get=plain(path), path=path, total=True)


def _strings(path: str, doc: str, *, name: str = "") -> Column:
    return Column(name=name or path, type=STRINGS, doc=doc, get=plain(path), path=path, total=True)


def _json(path: str, doc: str, *, name: str = "") -> Column:
    whole = plain(path)

    def get(record: Any) -> str | None:
        value = whole(record)
        return _json_encode(value).decode() if value else None

    def exact(value: Any, stored: str) -> bool:
        return _same(_json_decode(stored), value)

    return Column(
        name=name or path, type=pa.string(), doc=doc, get=get, path=path, read=_json_decode, exact=exact, compress=True
    )


def _same(left: Any, right: Any) -> bool:
    # `==` alone holds 1, 1.0 and True for one value; a reader would not.
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return left == right


def _derived(name: str, type: pa.DataType, doc: str, get: Callable[[Any], Any]) -> Column:
    return Column(name=name, type=type, doc=doc, get=get)


def _message_text(node: Node) -> str | None:
    parts = node.message.parts
    if len(parts) == 1 and type(parts[0]) is TextPart:
        return parts[0].text
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    return "\n".join(texts) if texts else None


# Most nodes have none of these, so they share one empty list: it is only read.
_NONE: list[Any] = []


def _calls(node: Node) -> list[tuple[str, str, str]]:
    calls = node.message.tool_calls
    return [(c.id, c.name, c.arguments) for c in calls] if calls else _NONE


def _call_names(node: Node) -> list[str]:
    calls = node.message.tool_calls
    return [c.name for c in calls] if calls else _NONE


def _risks(node: Node) -> list[tuple[str, float, str, str]]:
    return [(r.kind, r.severity, r.by, r.evidence) for r in node.risks] if node.risks else _NONE


def _risk_kinds(node: Node) -> list[str]:
    return [r.kind for r in node.risks] if node.risks else _NONE


def _content(task: Task) -> str:
    return task.content


def _usage() -> tuple[Column, ...]:
    return (
        _integer("usage.prompt_tokens", "tokens billed for the prompt", name="prompt_tokens"),
        _integer("usage.completion_tokens", "tokens billed for the completion", name="completion_tokens"),
        _integer("usage.cached_tokens", "prompt tokens served from a cache", name="cached_tokens"),
        _number("usage.usd", "US dollars", name="usd"),
        _number("usage.model_seconds", "seconds waiting for the model", name="model_seconds"),
        _number("usage.env_seconds", "seconds waiting for the environment", name="env_seconds"),
        _number("usage.silva_seconds", "seconds waiting for Silva", name="silva_seconds"),
    )


NODES = Table(
    name="nodes",
    record=Node,
    last_wins=False,
    doc="One row per turn; the first record of an id counts.",
    columns=(
        _text("id", "derived from place and content", index=True),
        _text("run_id", "the run that grew it", index=True),
        _text("tree_id", "the tree it belongs to", index=True),
        _text("parent_id", "the node before it; null at the root", index=True),
        _integer("depth", "turns from the root"),
        _text("author", "policy, environment, person, attacker, summariser or verifier"),
        _text("slot", "rollout attempt `index.attempt`; empty while shared"),
        _text("message.role", "system, user, assistant or tool", name="role"),
        Column(
            name="text",
            type=pa.string(),
            doc="the text parts joined by newlines; null when there is none (full-text indexed)",
            get=_message_text,
            path="message.parts",
            read=lambda text: [{"type": "text", "text": text}],
            exact=lambda parts, text: len(parts) == 1 and type(parts[0]) is TextPart and parts[0].extra is None,
            compress=True,
        ),
        Column(
            name="tool_calls",
            type=TOOL_CALLS,
            doc="the calls made, arguments as raw text",
            get=_calls,
            path="message.tool_calls",
            exact=lambda calls, _: all(call.extra is None for call in calls),
        ),
        _derived("tool_names", STRINGS, "names of the tools called", _call_names),
        _text("message.tool_call_id", "the call a tool message answers", name="tool_call_id"),
        _text("model", "the model that wrote it", index=True),
        _text("policy_version", "version of the policy that sampled it"),
        _text("finish_reason", "why the model stopped"),
        _number("reward", "reward for this turn; null: none given"),
        Column(
            name="token_ids",
            type=pa.list_(pa.int32()),
            doc="ids this turn added",
            get=plain("tokens.ids"),
            path="tokens.ids",
            fits=lambda ids: all(-(1 << 31) <= each < 1 << 31 for each in ids),
            total=True,
        ),
        _integer("tokens.sampled", "how many of the last ids were sampled", name="sampled_tokens"),
        Column(
            name="logprobs",
            type=pa.list_(pa.float64()),
            doc="natural log-probability of each sampled id",
            get=plain("tokens.logprobs"),
            path="tokens.logprobs",
            total=True,
        ),
        *_usage(),
        Column(name="risks", type=RISKS, doc="risks seen at this turn", get=_risks, path="risks", total=True),
        _derived("risk_kinds", STRINGS, "kinds of those risks", _risk_kinds),
        _text("snapshot_id", "environment snapshot taken after it"),
        _number("started", "Unix seconds"),
        _json("attributes", "further facts, as JSON"),
    ),
)

TRAJECTORIES = Table(
    name="trajectories",
    record=Trajectory,
    last_wins=True,
    doc="One row per attempt that ended; the last record of an id counts.",
    columns=(
        _text("id", "derived from run, task, index and attempt", index=True),
        _text("run_id", "the run that made it", index=True),
        _text("tree_id", "the tree it walks", index=True),
        _text("task_id", "the task it attempts", index=True),
        _text("env", "the task's environment", index=True),
        _integer("index", "place in its group"),
        _integer("attempt", "retries after infrastructure failures"),
        _integer("seed", "seed of the attempt"),
        _text("leaf_id", "last node of the walk; null when none"),
        _text("agent", "the agent that acted"),
        _text("model", "the model that acted"),
        _text("policy_version", "version of that policy"),
        _text("outcome.status", "completed, truncated or failed", name="status", index=True),
        _number("outcome.score", "the environment's mark in [0, 1]", name="score"),
        _flag("outcome.success", "the environment's own verdict", name="success"),
        _number("outcome.safety", "1 = no risk realised", name="safety"),
        _text("outcome.failure.boundary", "where a failure arose", name="boundary"),
        _text("outcome.failure.code", "stable short name of the failure", name="failure_code"),
        _text("outcome.failure.message", "its cause in one line", name="failure_message"),
        _flag("outcome.failure.retryable", "whether a fresh environment may help", name="retryable"),
        _json("outcome.metrics", "further marks of the checker, as JSON", name="metrics"),
        _integer("turns", "assistant turns"),
        _number("reward", "sum of rewards"),
        *_usage(),
        _number("started", "Unix seconds"),
        _number("finished", "Unix seconds"),
        _flag("superseded", "a later attempt counts instead"),
        _json("attributes", "further facts, as JSON"),
    ),
)

TASKS = Table(
    name="tasks",
    record=Task,
    last_wins=True,
    doc="One row per task of a run; the last record of an id in a run counts.",
    columns=(
        _text("id", "unique across environments", index=True),
        _text("run_id", "the run that owns it; empty: no run's, as older versions kept them", index=True, key=2),
        _derived("content", pa.string(), "digest of what it is, the same for the same task in every run", _content),
        _text("env", "its environment", index=True),
        _text("instruction", "what is asked, for people", compress=True),
        _text("split", "train, test, …"),
        _json("data", "what the environment needs, as JSON"),
        _strings("tags", "labels"),
    ),
)

RUNS = Table(
    name="runs",
    record=Run,
    last_wins=True,
    doc="One row per run, with the lineage of all its rows; the last record of an id counts.",
    columns=(
        _text("id", "the name a person gave", index=True),
        _text("command", "what was run"),
        _strings("envs", "environments"),
        _text("model", "model"),
        _text("agent", "agent"),
        _integer("seed", "seed"),
        _json("config", "full configuration, secrets redacted, as JSON"),
        _text("lineage.code", "package version or commit", name="code_version"),
        _text("lineage.config", "digest of the configuration", name="config_digest"),
        _strings("lineage.parents", "data it was made from, name@version", name="parents"),
        _text("status", "running, finished, …"),
        _number("started", "Unix seconds"),
        _number("finished", "Unix seconds; 0 while running"),
        _json("summary", "its figures, as JSON"),
    ),
)

SUPERVISIONS = Table(
    name="supervisions",
    record=Supervision,
    last_wins=False,
    doc="One row per judgement on a node; the first record of an id counts.",
    columns=(
        _text("id", "id", index=True),
        _text("node_id", "the node judged", index=True),
        _text("run_id", "the run it belongs to", index=True),
        _text("verdict", "keep, mask, good, bad, score or note"),
        _text("source", "rule, model or person"),
        _text("by", "which one"),
        _text("reason", "in words", compress=True),
        _number("value", "the score, where the verdict is one"),
        _number("at", "Unix seconds"),
        _json("attributes", "further facts, as JSON"),
    ),
)

BLOBS = Table(
    name="blobs",
    record=BlobEntry,
    last_wins=False,
    doc="One row per content-addressed file under `blobs/`.",
    columns=(
        _text("id", "sha256 hex of the bytes", index=True),
        _text("media_type", "MIME type"),
        _integer("size", "bytes"),
        _number("at", "Unix seconds of the first writing"),
    ),
)

TABLES: dict[str, Table] = {table.name: table for table in (NODES, TRAJECTORIES, TASKS, RUNS, SUPERVISIONS, BLOBS)}
