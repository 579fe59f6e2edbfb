"""Questions to a lake, whose answer is a table or a few figures."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from silva.elf.artefact import Figures, Table
from silva.elf.tool import Permission, tool
from silva.elf.work import Work
from silva.errors import UsageError
from silva.lake import Lake, open_lake, parse
from silva.lake.columns import TRAJECTORIES
from silva.tree import Json

Where = Annotated[str, Meta(description="which trajectories: score >= 0.5 and env = 'babyai'; all when empty")]
Count = Annotated[int, Meta(ge=0, description="the most rows; 0 for all")]

_SHOWN = "id, run_id, env, task_id, status, success, score, safety, turns, model, failure_code"
_MEASURES = {
    "count": "count(*)",
    "score": "avg(score)",
    "success": "avg(cast(success as double))",
    "safety": "avg(safety)",
    "turns": "avg(turns)",
    "reward": "avg(reward)",
    "usd": "sum(usd)",
    "tokens": "sum(prompt_tokens + completion_tokens)",
    "seconds": "avg(case when started > 0 and finished > 0 then greatest(finished - started, 0) end)",
}
Measure = Literal["count", "score", "success", "safety", "turns", "reward", "usd", "tokens", "seconds"]
By = Literal["", "env", "run", "task", "model", "agent", "status", "policy", "failure"]
_GROUPS = {
    "run": "run_id",
    "task": "task_id",
    "policy": "policy_version",
    "failure": "failure_code",
}


def reading(work: Work) -> Lake:
    """The job's lake, opened to be read. Raises UsageError where the job has none."""
    return open_lake(work.lake or None, mode="read")


def _condition(where: str) -> str:
    return f" where {parse(where).sql(TRAJECTORIES)}" if where else ""


@tool(Permission.READ, asks=("sql", "query lake", "select query"))
def query_sql(
    query: Annotated[str, Meta(description="one SELECT over the lake's tables, DuckDB's SQL")], work: Work
) -> Table:
    """Ask a lake one SQL question."""
    with reading(work) as lake:
        return Table(rows=tuple(lake.sql(query).to_pylist()))


@tool(Permission.READ, asks=("search", "search lake", "search text", "find text", "mention", "turn contain"))
def search_text(
    text: Annotated[str, Meta(min_length=1, description="words to find")], work: Work, count: Count = 20
) -> Table:
    """Find turns of a lake whose text holds words, the best first."""
    with reading(work) as lake:
        found = lake.search(text, limit=count or 1_000)
    rows: list[Json] = [
        {"score": round(score, 3), "tree": node.tree_id, "role": node.message.role, "text": node.message.text}
        for score, node in found
    ]
    return Table(rows=tuple(rows))


@tool(Permission.READ, asks=("list run", "show run", "which run", "what run", "run there"))
def list_runs(work: Work, where: Annotated[str, Meta(description="which runs: env and status")] = "") -> Table:
    """List the runs of a lake: what was run, with which model, and how it stands."""
    condition = parse(where) if where else None
    with reading(work) as lake:
        runs = lake.runs(where=condition)
    rows: list[Json] = [
        {"run": r.id, "command": r.command, "envs": ", ".join(r.envs), "model": r.model, "status": r.status}
        | {"started": r.started, "finished": r.finished}
        for r in runs
    ]
    return Table(rows=tuple(rows))


@tool(
    Permission.READ,
    asks=(
        "list trajectory",
        "show trajectory",
        "which trajectory",
        "list attempt",
        "find trajectory",
        "look trajectory",
    ),
)
def list_trajectories(work: Work, where: Where = "", count: Count = 0) -> Table:
    """List trajectories of a lake with how they ended."""
    limit = f" limit {count}" if count else ""
    with reading(work) as lake:
        found = lake.sql(
            f"select {_SHOWN} from trajectories{_condition(where)} order by run_id, env, task_id, id{limit}"
        )
    return Table(rows=tuple(found.to_pylist()))


@tool(
    Permission.READ,
    asks=(
        "count trajectory",
        "success rate",
        "how long trajectory",
        "safety rate",
        "how many",
        "count",
        "average",
        "mean",
        "rate by",
        "total",
        "group by",
        "per",
        "break down",
    ),
)
def measure_trajectories(work: Work, measure: Measure = "count", by: By = "", where: Where = "") -> Table:
    """One measure of trajectories (count, mean score, success rate …), in all or by environment, run, model …"""
    group = _GROUPS.get(by, by)
    chosen = f"{group} as {by}, " if by else ""
    grouped = f" group by {group} order by {group}" if by else ""
    with reading(work) as lake:
        found = lake.sql(
            f"select {chosen}{_MEASURES[measure]} as {measure} from trajectories{_condition(where)}{grouped}"
        )
    return Table(rows=tuple(found.to_pylist()))


@tool(
    Permission.READ,
    asks=("why fail", "fail cause", "fail reason", "kind fail", "what broke", "failure", "error cause", "failure mode"),
)
def failure_causes(work: Work, where: Where = "") -> Table:
    """Why trajectories failed: how many at which boundary with which code, and an example of each."""
    condition = _condition(where)
    condition += f"{' and' if condition else ' where'} status = 'failed'"
    text = (
        "select boundary, failure_code as code, count(*) as count, min(failure_message) as example "
        f"from trajectories{condition} group by boundary, failure_code order by count desc, code"
    )
    with reading(work) as lake:
        return Table(rows=tuple(lake.sql(text).to_pylist()))


@tool(
    Permission.READ,
    asks=(
        "lake stats",
        "what lake hold",
        "lake overview",
        "how big lake",
        "lake size",
        "what is in lake",
    ),
)
def lake_stats(work: Work) -> Figures:
    """What a lake holds and how much room it takes."""
    with reading(work) as lake:
        return Figures(figures=msgspec.to_builtins(lake.stats()))


@tool(Permission.READ, asks=("check lake", "lake healthy", "lake whole", "lake corrupt", "lake damage", "lake doctor"))
def check_lake(work: Work) -> Table:
    """Check a lake: what in it is damaged, and where."""
    with reading(work) as lake:
        found = [msgspec.to_builtins(each) for each in lake.doctor()]
    return Table(rows=tuple(found), notes=() if found else ("the lake is healthy",))


@tool(
    Permission.READ,
    asks=("list environment", "which environment", "what environment", "environment there", "environment lake"),
)
def list_environments(work: Work) -> Table:
    """The environments of which a lake holds trajectories, with how many and how they went."""
    text = (
        "select env, count(*) as trajectories, count(distinct task_id) as tasks, avg(score) as score, "
        "avg(cast(success as double)) as success from trajectories group by env order by env"
    )
    with reading(work) as lake:
        return Table(rows=tuple(lake.sql(text).to_pylist()))


def must_have_run(lake: Lake, run: str) -> None:
    """Raises UsageError where a lake has no such run."""
    if lake.run(run) is None and not lake.trajectories(run_id=run, limit=1):
        known = ", ".join(sorted(each.id for each in lake.runs())[:10]) or "none"
        raise UsageError(f"lake {lake.location}: has no run {run} (there: {known})")
