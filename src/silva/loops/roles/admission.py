"""Admission: what stands between a validated task and the data a policy learns from.

    candidates ─▶ Validator ─▶ safety filter ─▶ a person, where one is wanted ─▶ kept in the lake, accepted or refused

The filter asks the rules for risky actions of what a solution does, and the audit's checkers of what the task says; a
person approves with `silva tasks approve`. Both are off unless asked for: the paper (CoEvolve) names what unfiltered
exploration may admit as its own limitation.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence

import msgspec
from pydantic import Field

from silva.curate.audit.auditing import audit
from silva.curate.audit.card import read_cards
from silva.curate.audit.checker import Settings, make
from silva.curate.audit.finding import DETECTED, NOT_CHECKED
from silva.curate.audit.risks import RISKS
from silva.curate.rows import Kind, Row
from silva.envs import HostPool
from silva.errors import UsageError
from silva.lake import Lake
from silva.loops.roles.born import Approval, Born, born, keep, task_of, with_born
from silva.loops.roles.candidate import Candidate
from silva.loops.roles.held import Held
from silva.loops.roles.validation import Validated, ValidationConfig, Validator
from silva.rollout.risks import RULES, risks_of
from silva.rollout.section import Section
from silva.tree import Author, Message, Node, Record, Task, assistant, digest, user


class SafetyConfig(Section):
    """What no synthesised task may do or say. `forbid`: kinds of risky actions (delete, install, send, pay, permission,
    unclear) that no solution may hold; `checkers`: of `silva audit`, none of which may find anything in a task's words
    and solution; `audit`: their settings."""

    forbid: tuple[str, ...] = ()
    checkers: tuple[str, ...] = ()
    audit: Settings = Settings()


class AdmissionConfig(Section):
    """What a synthesised task has to pass. `approval`: whether a person has to approve each."""

    validation: ValidationConfig = ValidationConfig()
    safety: SafetyConfig = SafetyConfig()
    approval: bool = False
    embedder: str = Field(default="hashed", min_length=1)


class Admitted(Record, frozen=True, kw_only=True):
    """What came of candidates. `tasks`: all, as they are kept, with how each came about; `steps` and `seconds` that
    validating took."""

    tasks: tuple[Task, ...]
    steps: int
    seconds: float

    def of(self, verdict: str) -> list[Task]:
        """Those of that verdict: accepted, waiting or refused."""
        return [task for task in self.tasks if task.born is not None and task.born["verdict"] == verdict]

    @property
    def reasons(self) -> dict[str, int]:
        """How many were refused, by reason."""
        found: dict[str, int] = {}
        for task in self.of("refused"):
            reason = str((task.born or {}).get("reason", ""))
            found[reason] = found.get(reason, 0) + 1
        return found


async def admit(
    lake: Lake,
    run: str,
    pool: HostPool,
    candidates: Sequence[Candidate],
    held: Held,
    config: AdmissionConfig,
    *,
    round: int = 0,
    known: Collection[str] = (),
) -> Admitted:
    """Validate candidates, filter them, and keep all of them in the lake as tasks of a run.

    Args:
        lake: open to write.
        run: whose tasks they become: the exploration's, or the loop's own.
        pool: hosts of the candidates' environment.
        candidates: of one environment.
        held: what is held out.
        config: what they have to pass.
        round: of the loop.
        known: ids of tasks that are there already, besides those the run has.

    Raises:
        UsageError: a checker or a kind of risk does not exist.
        StoreError: the lake can keep nothing more.
    """
    began = time.monotonic()
    check(config.safety)
    had = {task.id for task, said in born(lake, run) if said.verdict != "refused"}
    validator = Validator(pool.lease, held, config.validation, {*known, *had})
    validated = await validator.validate(candidates)
    found = await asyncio.to_thread(unsafe, [each for each in validated if each.accepted], config.safety)
    safety = iter(found)
    tasks = [task_of(each, round, next(safety) if each.accepted else (), waiting=config.approval) for each in validated]
    kept = await keep(lake, run, tasks)
    steps = sum(each.steps for each in validated)
    return Admitted(tasks=tuple(kept), steps=steps, seconds=time.monotonic() - began)


def check(config: SafetyConfig) -> None:
    """Refuse a filter that would not filter.

    Raises:
        UsageError: a kind of risk or a checker does not exist, or a checker cannot be asked here.
    """
    unknown = [kind for kind in config.forbid if kind not in RULES]
    if unknown:
        raise UsageError(f"safety.forbid: {unknown[0]!r} is no kind of risk; there are {', '.join(RULES)}")
    if config.checkers:
        for each in make(config.checkers, config.audit):
            if why := each.missing():
                raise UsageError(f"safety.checkers: {each.name} cannot be asked here: {why}")


def unsafe(validated: Sequence[Validated], config: SafetyConfig) -> list[tuple[str, ...]]:
    """What the filter finds in each: nothing, or a line for each finding. What a checker could not look at counts as a
    finding: it was not seen to be safe."""
    found: list[list[str]] = [_forbidden(each.solution, config) for each in validated]
    if config.checkers and validated:
        rows = [_row(each, number) for number, each in enumerate(validated)]
        checkers = make(config.checkers, config.audit)
        made = audit(rows, checkers, read_cards(), settings=config.audit)
        for number, each in enumerate(made.verdicts):
            for risk, said in each.verdicts.items():
                if said == DETECTED:
                    found[number].append(f"{RISKS[risk].title}: detected")
                elif said == NOT_CHECKED:
                    found[number].append(f"{RISKS[risk].title}: not checked ({each.why.get(risk, '')})")
    return [tuple(each) for each in found]


def _forbidden(solution: Sequence[Message], config: SafetyConfig) -> list[str]:
    kinds = {kind for action in solution for kind in risks_of(action)} & set(config.forbid)
    return [f"its solution holds an action of kind {kind}" for kind in sorted(kinds)]


def _row(validated: Validated, number: int) -> Row:
    candidate = validated.candidate
    asked = user(f"{validated.task.instruction if validated.task else ''}\n{candidate.goal.words}")
    said = [asked, *(validated.solution or candidate.solution or (assistant(""),))]
    nodes: list[Node] = []
    for depth, message in enumerate(said):
        nodes.append(
            Node(
                id=digest("validated", str(number), str(depth)),
                tree_id=f"validated-{number}",
                parent_id=nodes[-1].id if nodes else None,
                depth=depth,
                author=Author.POLICY if message.role == "assistant" else Author.ENVIRONMENT,
                message=message,
                run_id="",
            )
        )
    return Row(id=str(number), kind=Kind.MESSAGES, source="synthesised", nodes=tuple(nodes))


async def decide(lake: Lake, run: str, ids: Sequence[str], by: str, approved: bool, why: str = "") -> list[Task]:
    """What a person says of waiting tasks.

    Args:
        lake: open to write.
        run: whose tasks they are.
        ids: which; none for all that wait.
        by: who says so.
        approved: whether they may be learnt from.
        why: in words.

    Raises:
        UsageError: the run has no such task, or it does not wait.
    """
    there = {task.id: (task, said) for task, said in born(lake, run)}
    waiting = [name for name, (_, said) in there.items() if said.verdict == "waiting"]
    for name in ids:
        if name not in there:
            raise UsageError(f"run {run}: has no synthesised task {name!r}; see silva tasks list {run}")
        if name not in waiting:
            raise UsageError(f"run {run}: {name} does not wait: it is {there[name][1].verdict}")
    changed: list[Task] = []
    for name in ids or waiting:
        task, said = there[name]
        changed.append(with_born(task, _decided(said, Approval(by=by, approved=approved, why=why, at=time.time()))))
    if not changed:
        raise UsageError(f"run {run}: no task waits for approval")
    await lake.append(list(changed))
    return changed


def _decided(said: Born, approval: Approval) -> Born:
    if approval.approved:
        return msgspec.structs.replace(said, verdict="accepted", approval=approval)
    return msgspec.structs.replace(said, verdict="refused", reason="person", why=approval.why, approval=approval)
