"""The figures of a run.

    Trajectories ─▶ last attempt of each place ─▶ clustered by task ─▶ Summary (overall, and one per environment)

Three questions stay apart. *Success* and *score* are over the attempts the environment judged; what broke is counted by
boundary and never as a score; `success_of_all` counts everything unjudged as not successful, so that a run which broke
on its hard tasks cannot look good. A retried attempt counts once, by its last try; what its earlier tries cost was
spent all the same, and is told beside (`spent`). What an attempt does not say (a file without times, a model that
counts no tokens) is no nought: such attempts are left out of that figure and counted in `silent`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import comb
from statistics import fmean

import msgspec

from silva.report.counted import CountedShare, counted_shares
from silva.report.interval import Interval, mean, proportion, quantile
from silva.report.roles import RoleSummary, by_role
from silva.tree import NO_USAGE, Boundary, Json, Record, Status, Trajectory, Usage, groups


class PassAt(Record, frozen=True, kw_only=True):
    """pass@k (`any`: one of k tries succeeds), pass^k (`all`: all k do), over tasks with at least k judged attempts."""

    k: int
    tasks: int
    any: float
    all: float


class Spread(Record, frozen=True, kw_only=True):
    """How a quantity is spread over attempts."""

    mean: float = 0.0
    median: float = 0.0
    p95: float = 0.0
    total: float = 0.0


class FailureCount(Record, frozen=True, kw_only=True):
    """How many counted attempts broke at one boundary with one code; `example` is the first one's message."""

    boundary: Boundary
    code: str
    count: int
    example: str


class Waiting(Record, frozen=True, kw_only=True):
    """Seconds summed over attempts: waiting for the model, for the environment, inside Silva, and the rest.

    `other` is wall time that no turn claims: waiting for a free host, set-up and evaluation.
    """

    model: float = 0.0
    environment: float = 0.0
    silva: float = 0.0
    other: float = 0.0

    @property
    def total(self) -> float:
        """All four, in seconds."""
        return self.model + self.environment + self.silva + self.other


class TaskSummary(Record, frozen=True, kw_only=True):
    """One task's group: how many attempts, how many were judged, succeeded, broke; mean score of the judged."""

    env: str
    task_id: str
    attempts: int
    judged: int
    successes: int
    failures: int
    score: float | None

    @property
    def rate(self) -> float | None:
        """Share of judged attempts that succeeded."""
        return self.successes / self.judged if self.judged else None


class Spent(Record, frozen=True, kw_only=True):
    """What was paid for, superseded attempts included: tokens and US dollars."""

    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0


class Summary(Record, frozen=True, kw_only=True):
    """The figures of a set of attempts. `lift` is the mean score less the null policy's (`null`), if that is known.
    `usd` is what all of them cost, `spent` the same with tokens, and `spent_superseded` the part of it that went into
    attempts which count nowhere else. `turns` is spread over attempts as long as their walks are; its total counts a
    turn that several hold (branches, sessions that went on) once. `silent`: how many attempts say nothing of their
    seconds or tokens. `roles`: where several agents acted, each of them; what an attempt cost is all of theirs.
    `counted`: shares that the environment counts itself (AnsAcc, ToolAcc), with what each is a share of."""

    env: str = ""
    tasks: int
    attempts: int
    superseded: int
    judged: int
    status: dict[str, int]
    success: Interval | None
    success_of_all: Interval | None
    score: Interval | None
    null: float | None
    lift: Interval | None
    safety: Interval | None
    passes: tuple[PassAt, ...]
    failures: tuple[FailureCount, ...]
    turns: Spread
    prompt_tokens: Spread
    completion_tokens: Spread
    cached_tokens: int
    usd: float
    spent: Spent
    spent_superseded: Spent
    silent: dict[str, int]
    seconds: Spread
    waiting: Waiting
    by_task: tuple[TaskSummary, ...]
    envs: tuple[Summary, ...] = ()
    roles: tuple[RoleSummary, ...] = ()
    counted: tuple[CountedShare, ...] = ()

    def to_json(self) -> Json:
        """Plain JSON: what `--json` prints and a run's record keeps."""
        return msgspec.to_builtins(self)

    @property
    def failed(self) -> int:
        """Attempts that broke at some boundary."""
        return self.status.get(Status.FAILED, 0)

    @property
    def boundaries(self) -> dict[Boundary, int]:
        """Failures by boundary, every boundary named."""
        counts = dict.fromkeys(Boundary, 0)
        for failure in self.failures:
            counts[failure.boundary] += failure.count
        return counts


def counted(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """The attempts that statistics are about: the last try at each place of each group, none superseded."""
    members = [t for t in trajectories if not t.superseded]
    return [t for group in groups(members) for t in group.trajectories]


def summarise(trajectories: Iterable[Trajectory], baselines: Mapping[str, float] | None = None) -> Summary:
    """Sum up attempts, overall and per environment.

    Args:
        trajectories: of one run, or of several whose attempts should be pooled; order does not matter.
        baselines: the null policy's mean score by environment, taken as exact. Overall lift needs one for every
            environment seen; each environment weighs by its scored attempts.
    """
    everything = sorted(trajectories, key=lambda t: (t.env, t.task_id, t.index, t.attempt))
    floors = baselines or {}
    by_env: dict[str, list[Trajectory]] = defaultdict(list)
    for trajectory in everything:
        by_env[trajectory.env].append(trajectory)
    envs = tuple(_summary(by_env[env], env, floors.get(env), ()) for env in sorted(by_env))
    return _summary(everything, "", _pooled_null(envs), envs)


def _summary(everything: list[Trajectory], env: str, null: float | None, envs: tuple[Summary, ...]) -> Summary:
    attempts = counted(everything)
    by_task: dict[tuple[str, str], list[Trajectory]] = defaultdict(list)
    for trajectory in attempts:
        by_task[trajectory.env, trajectory.task_id].append(trajectory)
    clusters = list(by_task.values())
    verdicts = [[t.outcome.success for t in cluster if t.outcome.success is not None] for cluster in clusters]
    score = mean([[t.outcome.score for t in c if t.outcome.score is not None] for c in clusters], within=(0.0, 1.0))
    usage = sum((t.usage for t in attempts), NO_USAGE)
    clocked = [t for t in attempts if t.started > 0]
    seconds = [t.seconds for t in clocked]
    metered = [t for t in attempts if t.usage.prompt_tokens + t.usage.completion_tokens > 0 or not t.own_turns]
    chosen = {t.id for t in attempts}
    return Summary(
        env=env,
        tasks=len(by_task),
        attempts=len(attempts),
        superseded=len(everything) - len(attempts),
        judged=sum(map(len, verdicts)),
        status={status.value: sum(t.outcome.status is status for t in attempts) for status in Status},
        success=proportion(verdicts),
        success_of_all=proportion([[bool(t.outcome.success) for t in cluster] for cluster in clusters]),
        score=score,
        null=null,
        lift=score.shifted(-null) if score is not None and null is not None else None,
        safety=mean(
            [[t.outcome.safety for t in c if t.outcome.safety is not None] for c in clusters], within=(0.0, 1.0)
        ),
        passes=passes(verdicts),
        failures=_failures(attempts),
        turns=msgspec.structs.replace(_spread([t.turns for t in attempts]), total=sum(t.own_turns for t in attempts)),
        prompt_tokens=_spread([t.usage.prompt_tokens for t in metered]),
        completion_tokens=_spread([t.usage.completion_tokens for t in metered]),
        cached_tokens=usage.cached_tokens,
        usd=sum(t.usage.usd for t in everything),
        spent=_spent(everything),
        spent_superseded=_spent([t for t in everything if t.id not in chosen]),
        silent={"seconds": len(attempts) - len(clocked), "tokens": len(attempts) - len(metered)},
        seconds=_spread(seconds),
        waiting=_waiting(usage, sum(seconds)),
        by_task=tuple(_task(env_name, task, members) for (env_name, task), members in sorted(by_task.items())),
        envs=envs,
        roles=by_role(attempts),
        counted=counted_shares(attempts),
    )


def passes(verdicts: Sequence[Sequence[bool]]) -> tuple[PassAt, ...]:
    """pass@k and pass^k for k = 1 … the largest group, each over the tasks with at least k judged attempts.

    With c successes in n attempts, pass@k is estimated by 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, section 2.1) and
    pass^k by C(c, k) / C(n, k) (Yao et al. 2024, section 3): both unbiased, and averaged over tasks.

    Args:
        verdicts: per task, whether each judged attempt succeeded.
    """
    found: list[PassAt] = []
    for k in range(1, max(map(len, verdicts), default=0) + 1):
        enough = [(len(v), sum(v)) for v in verdicts if len(v) >= k]
        found.append(
            PassAt(
                k=k,
                tasks=len(enough),
                any=fmean(1 - comb(n - c, k) / comb(n, k) for n, c in enough),
                all=fmean(comb(c, k) / comb(n, k) for n, c in enough),
            )
        )
    return tuple(found)


def _pooled_null(envs: Sequence[Summary]) -> float | None:
    scored = [(summary.null, summary.score.n) for summary in envs if summary.score is not None]
    total = sum(n for _, n in scored)
    if not total or any(null is None for null, _ in scored):
        return None
    return sum(null * n for null, n in scored if null is not None) / total


def _failures(attempts: Sequence[Trajectory]) -> tuple[FailureCount, ...]:
    causes = [t.outcome.failure for t in attempts if t.outcome.failure is not None]
    counts = Counter((cause.boundary, cause.code) for cause in causes)
    examples = {(cause.boundary, cause.code): cause.message for cause in reversed(causes)}
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(
        FailureCount(boundary=key[0], code=key[1], count=count, example=examples[key]) for key, count in ranked
    )


def _spent(attempts: Sequence[Trajectory]) -> Spent:
    usage = sum((t.usage for t in attempts), NO_USAGE)
    return Spent(
        attempts=len(attempts),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        usd=usage.usd,
    )


def _spread(values: Sequence[float]) -> Spread:
    if not values:
        return Spread()
    return Spread(mean=fmean(values), median=quantile(values, 0.5), p95=quantile(values, 0.95), total=sum(values))


def _waiting(usage: Usage, wall: float) -> Waiting:
    claimed = usage.model_seconds + usage.env_seconds + usage.silva_seconds
    return Waiting(
        model=usage.model_seconds,
        environment=usage.env_seconds,
        silva=usage.silva_seconds,
        other=max(0.0, wall - claimed),
    )


def _task(env: str, task_id: str, members: Sequence[Trajectory]) -> TaskSummary:
    scores = [t.outcome.score for t in members if t.outcome.score is not None]
    return TaskSummary(
        env=env,
        task_id=task_id,
        attempts=len(members),
        judged=sum(t.outcome.success is not None for t in members),
        successes=sum(t.outcome.success is True for t in members),
        failures=sum(t.outcome.status is Status.FAILED for t in members),
        score=fmean(scores) if scores else None,
    )
