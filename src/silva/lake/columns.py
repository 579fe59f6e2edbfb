"""The one specification of what every table holds; schema, row builder, row reader and documentation derive from it.

    record ── rows.build ──▶ typed columns (to filter, search and count by) + `rest` (what no column holds exactly)
           ◀── rows.read ──

A column with a `path` stores that field of the record. Where its value does not say the field exactly (an integer
beyond 64 bits, a message of several parts, a NaN inside JSON), `rest` holds the field too and the column is to look
at; `rest` also holds every field that has no column. A column without a path is derived. Adding a field to a record
therefore never loses data, and adding a column to a table needs no migration: old rows read it from their `rest`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from silva.lake.column import (
    STRINGS,
    Column,
    Table,
    derived,
    flag,
    integer,
    number,
    packed,
    plain,
    strings,
    text,
)
from silva.lake.entry import Arrival, BlobEntry
from silva.tree import Node, Run, Supervision, Task, TextPart, Trajectory

TOOL_CALLS = pa.list_(pa.struct([("id", pa.string()), ("name", pa.string()), ("arguments", pa.string())]))
RISKS = pa.list_(
    pa.struct([("kind", pa.string()), ("severity", pa.float64()), ("by", pa.string()), ("evidence", pa.string())])
)


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
        integer("usage.prompt_tokens", "tokens billed for the prompt", name="prompt_tokens"),
        integer("usage.completion_tokens", "tokens billed for the completion", name="completion_tokens"),
        integer("usage.cached_tokens", "prompt tokens served from a cache", name="cached_tokens"),
        number("usage.usd", "US dollars", name="usd"),
        number("usage.model_seconds", "seconds waiting for the model", name="model_seconds"),
        number("usage.env_seconds", "seconds waiting for the environment", name="env_seconds"),
        number("usage.silva_seconds", "seconds waiting for Silva", name="silva_seconds"),
    )


NODES = Table(
    name="nodes",
    record=Node,
    last_wins=False,
    doc="One row per turn; the first record of an id counts.",
    columns=(
        text("id", "derived from place and content", index=True),
        text("run_id", "the run that grew it", index=True),
        text("tree_id", "the tree it belongs to", index=True),
        text("parent_id", "the node before it; null at the root", index=True),
        integer("depth", "turns from the root"),
        text("author", "policy, environment, person, attacker, summariser or verifier"),
        text("slot", "rollout attempt `index.attempt`; empty while shared"),
        text("message.role", "system, user, assistant or tool", name="role"),
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
        derived("tool_names", STRINGS, "names of the tools called", _call_names),
        text("message.tool_call_id", "the call a tool message answers", name="tool_call_id"),
        text("model", "the model that wrote it", index=True),
        text("policy_version", "version of the policy that sampled it"),
        text("finish_reason", "why the model stopped"),
        number("reward", "reward for this turn; null: none given"),
        Column(
            name="token_ids",
            type=pa.list_(pa.int32()),
            doc="ids this turn added",
            get=plain("tokens.ids"),
            path="tokens.ids",
            fits=lambda ids: all(-(1 << 31) <= each < 1 << 31 for each in ids),
            total=True,
        ),
        integer("tokens.sampled", "how many of the last ids were sampled", name="sampled_tokens"),
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
        derived("risk_kinds", STRINGS, "kinds of those risks", _risk_kinds),
        text("snapshot_id", "environment snapshot taken after it"),
        number("started", "Unix seconds"),
        packed("attributes", "further facts, as JSON"),
    ),
)

TRAJECTORIES = Table(
    name="trajectories",
    record=Trajectory,
    last_wins=True,
    doc="One row per attempt that ended; the last record of an id counts.",
    columns=(
        text("id", "derived from run, task, index and attempt", index=True),
        text("run_id", "the run that made it", index=True),
        text("tree_id", "the tree it walks", index=True),
        text("task_id", "the task it attempts", index=True),
        text("env", "the task's environment", index=True),
        integer("index", "place in its group"),
        integer("attempt", "retries after infrastructure failures"),
        integer("seed", "seed of the attempt"),
        text("leaf_id", "last node of the walk; null when none"),
        text("agent", "the agent that acted"),
        text("model", "the model that acted"),
        text("policy_version", "version of that policy"),
        text("outcome.status", "completed, truncated or failed", name="status", index=True),
        number("outcome.score", "the environment's mark in [0, 1]", name="score"),
        flag("outcome.success", "the environment's own verdict", name="success"),
        number("outcome.safety", "1 = no risk realised", name="safety"),
        text("outcome.failure.boundary", "where a failure arose", name="boundary"),
        text("outcome.failure.code", "stable short name of the failure", name="failure_code"),
        text("outcome.failure.message", "its cause in one line", name="failure_message"),
        flag("outcome.failure.retryable", "whether a fresh environment may help", name="retryable"),
        packed("outcome.metrics", "further marks of the checker, as JSON", name="metrics"),
        integer("turns", "assistant turns"),
        number("reward", "sum of rewards"),
        *_usage(),
        number("started", "Unix seconds"),
        number("finished", "Unix seconds"),
        flag("superseded", "a later attempt counts instead"),
        packed("attributes", "further facts, as JSON"),
    ),
)

TASKS = Table(
    name="tasks",
    record=Task,
    last_wins=True,
    doc="One row per task of a run; the last record of an id in a run counts.",
    columns=(
        text("id", "unique across environments", index=True),
        text("run_id", "the run that owns it; empty: no run's, as older versions kept them", index=True, key=2),
        derived("content", pa.string(), "digest of what it is, the same for the same task in every run", _content),
        text("env", "its environment", index=True),
        text("instruction", "what is asked, for people", compress=True),
        text("split", "train, test, …"),
        packed("data", "what the environment needs, as JSON"),
        strings("tags", "labels"),
        packed("born", "how it came about, where a role made it: from which walk, how validated, as JSON"),
    ),
)

RUNS = Table(
    name="runs",
    record=Run,
    last_wins=True,
    doc="One row per run, with the lineage of all its rows; the last record of an id counts.",
    columns=(
        text("id", "the name a person gave", index=True),
        text("command", "what was run"),
        strings("envs", "environments"),
        text("model", "model"),
        text("agent", "agent"),
        integer("seed", "seed"),
        packed("config", "full configuration, secrets redacted, as JSON"),
        text("lineage.code", "package version or commit", name="code_version"),
        text("lineage.config", "digest of the configuration", name="config_digest"),
        strings("lineage.parents", "data it was made from, name@version", name="parents"),
        text("status", "running, finished, …"),
        number("started", "Unix seconds"),
        number("finished", "Unix seconds; 0 while running"),
        packed("summary", "its figures, as JSON"),
    ),
)

SUPERVISIONS = Table(
    name="supervisions",
    record=Supervision,
    last_wins=False,
    doc="One row per judgement on a node; the first record of an id counts.",
    columns=(
        text("id", "id", index=True),
        text("node_id", "the node judged", index=True),
        text("run_id", "the run it belongs to", index=True),
        text("verdict", "keep, mask, good, bad, score or note"),
        text("source", "rule, model or person"),
        text("by", "which one"),
        text("reason", "in words", compress=True),
        number("value", "the score, where the verdict is one"),
        number("at", "Unix seconds"),
        packed("attributes", "further facts, as JSON"),
    ),
)

BLOBS = Table(
    name="blobs",
    record=BlobEntry,
    last_wins=False,
    doc="One row per content-addressed file under `blobs/`.",
    columns=(
        text("id", "sha256 hex of the bytes", index=True),
        text("media_type", "MIME type"),
        integer("size", "bytes"),
        number("at", "Unix seconds of the first writing"),
    ),
)

ARRIVALS = Table(
    name="arrivals",
    record=Arrival,
    last_wins=False,
    doc="One row per span, log record or score that a foreign agent's tracer sent; the first record of an id counts.",
    columns=(
        text("id", "derived from trace, span and content", index=True),
        text("kind", "span, log, score, trace or assembled"),
        text("form", "how `data` is to be read"),
        text("trace", "the trace it belongs to", index=True),
        text("span", "its own id"),
        text("conversation", "the conversation it names; of an assembled one, the session's key", index=True),
        text("run", "the run its trajectories go to"),
        flag("root", "whether it ends its trace"),
        number("at", "Unix seconds when it came"),
        number("started", "Unix seconds when what it tells of began"),
        integer("size", "bytes of `data`"),
        Column(
            name="data",
            type=pa.binary(),
            doc="as it was sent",
            get=plain("data"),
            path="data",
            total=True,
            compress=True,
        ),
    ),
)

TABLES: dict[str, Table] = {
    table.name: table for table in (NODES, TRAJECTORIES, TASKS, RUNS, SUPERVISIONS, BLOBS, ARRIVALS)
}
