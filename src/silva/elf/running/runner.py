"""Running a job: its steps in the order of the graph, each once, whatever is killed in between.

    check again ─▶ for each step: ended before? ─▶ known result of the same pure step? ─▶ the child runs it ─▶ ledger

The budget is looked at before every step and held while it runs. What models cost is announced before each call
(`silva.elf.work`), so that no kill makes room for a call too many.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout

from silva.elf import checking
from silva.elf.artefact import Artefact
from silva.elf.lineage import Lineage
from silva.elf.plan import Budget
from silva.elf.running.child import Child, Overrun
from silva.elf.running.clock import RESERVE, Clock, taken
from silva.elf.running.job import Job
from silva.elf.running.ledger import Event, Ledger
from silva.elf.running.store import Store, step_key
from silva.elf.running.worker import Request
from silva.elf.tool import Determinism
from silva.elf.toolbox import Toolbox
from silva.elf.work import FILE, Meter
from silva.errors import Exit, SilvaError, UsageError
from silva.tree import Record

Say = Callable[[Event], None]


class StepFailedError(SilvaError):
    """A step failed: the job stands where it was, and can be resumed."""

    code = Exit.INCOMPLETE


class Done(Record, frozen=True, kw_only=True):
    """A job that is done: the results of its last steps by their id, and what all of it took."""

    job: str
    results: dict[str, str]
    seconds: float
    tokens: int
    usd: float


class Runner:
    """Runs jobs of one home.

    Args:
        home: of the engine.
        tools: all there are.
        say: hears each event as it happens.
        child: the process for tools; one of its own when None.
    """

    def __init__(self, home: Path, tools: Toolbox, say: Say = lambda event: None, child: Child | None = None) -> None:
        self._home, self._tools, self._say = home, tools, say
        self._child = child
        self.store = Store(home)

    def run(self, job: Job, *, clock: Clock | None = None, paid: Path | None = None) -> Done:
        """Run a job to its end, or on from where it was.

        Args:
            job: which.
            clock: counts its time; one of the job's own when None.
            paid: the folder whose file counts what models cost; the job's own when None.

        Raises:
            UsageError: the plan may not run, or another process runs the job.
            StepFailedError: a step failed, or the budget is spent; what is done is kept.
            StoreError: the disk refuses.
        """
        try:
            with FileLock(job.folder / "lock", timeout=2):  # the console looks at it for a moment
                return self._run(job, clock, paid or job.folder)
        except Timeout:
            raise UsageError(f"job {job.id} is being run by another process; wait for it, or end it") from None

    def artefact(self, name: str) -> Artefact:
        """A result by its digest. Raises StoreError."""
        return self.store.get(name)

    def _run(self, job: Job, given: Clock | None, paid: Path) -> Done:
        ledger = Ledger(job.folder)
        budget = job.terms.budget
        checking.checked(job.plan, self._tools, job.terms.granted, budget)
        lineage = Lineage(job.folder, job.id, job.terms.lineage)
        if not any(event.event == "planned" for event in ledger.events):
            self._add(ledger, Event(event="planned", why=job.plan.planner, count=len(job.plan.steps)))
        if given is None and taken(job.folder) >= budget.seconds and len(ledger.ended()) < len(job.plan.steps):
            raise StepFailedError(_no_time(job, taken(job.folder), budget))
        clock = given or Clock(job.folder)
        child = self._child or Child(job.folder / "worker.log")
        lineage.job("START", job.plan)
        try:
            for name in checking.order(job.plan):
                if name not in ledger.ended():
                    self._step(job, name, ledger, clock, child, paid, lineage)
        except SilvaError as error:
            lineage.job("FAIL", job.plan, str(error))
            raise
        finally:
            if given is None:
                clock.stop()
            if self._child is None:
                child.end()
        ended = ledger.ended()
        results = {name: ended[name].result for name in job.plan.last}
        tokens, usd = Meter(paid / FILE, budget.tokens, budget.usd).spent()
        if not any(event.event == "done" for event in ledger.events):
            self._add(ledger, Event(event="done", seconds=clock.seconds, tokens=tokens, usd=usd))
            lineage.job("COMPLETE", job.plan)
        return Done(job=job.id, results=results, seconds=clock.seconds, tokens=tokens, usd=usd)

    def _step(
        self, job: Job, name: str, ledger: Ledger, clock: Clock, child: Child, paid: Path, lineage: Lineage
    ) -> None:
        step, budget = job.plan.step(name), job.terms.budget
        card = self._tools.tool(step.tool).card
        ended = ledger.ended()
        inputs = {key: tuple(ended[source].result for source in sources) for key, sources in step.inputs.items()}
        key = step_key(card, step.settings, inputs)
        known = self.store.known(key) if card.determinism is Determinism.PURE else None
        if known is not None:
            found = self.store.get(known)
            self._add(
                ledger, Event(event="ended", step=name, result=known, kind=found.noun, count=len(found), kept=True)
            )
            lineage.step("COMPLETE", step, card, inputs, known, found)
            return
        left = budget.seconds - clock.seconds - RESERVE
        if left <= 0:
            raise StepFailedError(_no_time(job, clock.seconds, budget))
        self._add(ledger, Event(event="began", step=name))
        lineage.step("START", step, card, inputs)
        before = Meter(paid / FILE, budget.tokens, budget.usd).spent()
        request = Request(
            tool=step.tool,
            inputs=inputs,
            settings=step.settings,
            home=str(self._home.resolve()),
            folder=str(job.files.resolve()),
            paid=str(paid.resolve()),
            lake=job.terms.lake,
            model=job.terms.model,
            tokens=budget.tokens,
            usd=budget.usd,
            granted=job.terms.granted,
            replay=job.terms.replay,
        )
        try:
            reply = child.ask(request, left, budget.memory, clock.tick)
        except Overrun as error:
            self._add(ledger, Event(event="failed", step=name, why=str(error), memory=child.peak))
            lineage.step("FAIL", step, card, inputs, why=str(error))
            raise StepFailedError(f"job {job.id}, step {name}: {error}") from error
        after = Meter(paid / FILE, budget.tokens, budget.usd).spent()
        cost = {"tokens": after[0] - before[0], "usd": after[1] - before[1], "memory": child.peak}
        if reply.error:
            self._add(ledger, Event(event="failed", step=name, why=reply.error, seconds=reply.seconds, **cost))
            lineage.step("FAIL", step, card, inputs, why=reply.error)
            raise StepFailedError(f"job {job.id}, step {name}: {reply.error}", _code(reply.code))
        if card.determinism is Determinism.PURE:
            self.store.remember(key, reply.result)
        event = Event(event="ended", step=name, result=reply.result, kind=reply.kind, count=reply.count)
        self._add(
            ledger,
            msgspec.structs.replace(event, seconds=reply.seconds, why="; ".join(reply.notes)[:500], **cost),
        )
        lineage.step("COMPLETE", step, card, inputs, reply.result, self.store.get(reply.result))

    def _add(self, ledger: Ledger, event: Event) -> None:
        self._say(ledger.add(event))


def _no_time(job: Job, seconds: float, budget: Budget) -> str:
    return (
        f"job {job.id}: {seconds:.1f} of {budget.seconds:g} s are spent; what is done is kept: resume it with a larger "
        "--seconds"
    )


def _code(code: int) -> Exit:
    return Exit(code) if code in set(Exit) else Exit.INCOMPLETE
