"""A pilot: attempts until its check holds or its budget is spent, in a folder that survives a kill.

    HOME/pilots/pilot_1a2b3c4d/  pilot.json  ledger.jsonl  clock  spent.jsonl

    attempt 1: the plan of the intent ─▶ check ─▶ attempt 2: with a derived tool ─▶ check ─▶ … ─▶ converged | spent

An attempt that was begun is finished after a kill, never begun anew; it counts once. Time and money are counted for the
pilot as a whole (`running.clock`, `work.Meter`), so no number of kills buys more.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout

from silva.elf import checking
from silva.elf.artefact import Artefact, Rows
from silva.elf.assets import toolbox
from silva.elf.derived import Assets, Derived, tool_of
from silva.elf.pilot.check import Check, Verdict
from silva.elf.pilot.toolsmith import composed, proven, written
from silva.elf.plan import MOST_STEPS, Plan, Step
from silva.elf.running.child import Overrun
from silva.elf.running.clock import RESERVE, Clock, taken
from silva.elf.running.job import Job, Terms
from silva.elf.running.ledger import Event, Ledger
from silva.elf.running.runner import Runner, StepFailedError
from silva.elf.toolbox import Toolbox
from silva.elf.work import FILE, Meter
from silva.errors import SilvaError, StoreError, UsageError
from silva.lake.durable import make_folder, refusals, write_whole
from silva.tree import Record, digest

_NAME = re.compile(r"pilot_[0-9a-f]{8}")


class Pilot(Record, frozen=True, kw_only=True):
    """What a pilot is to reach: the intent, its first plan, the check, the terms. `budget.steps` bounds attempts."""

    intent: str
    check: str
    plan: Plan
    terms: Terms
    toolsmith: str = ""
    made: float = 0.0


class Flown(Record, frozen=True, kw_only=True):
    """What became of a pilot. `candidate` waits for a person, where one was needed to converge; `job` is the last
    attempt's, and what was promoted of it can be submitted again."""

    pilot: str
    converged: bool
    attempts: int
    score: float
    job: str = ""
    candidate: str = ""
    why: str = ""
    seconds: float = 0.0
    tokens: int = 0
    usd: float = 0.0


def begin(home: Path, pilot: Pilot) -> str:
    """Make the folder of a new pilot; its name. Raises UsageError where its check states nothing, StoreError."""
    Check(pilot.check)
    name = f"pilot_{digest('pilot', pilot.intent, os.urandom(8).hex())[:8]}"
    folder = home / "pilots" / name
    with refusals(f"pilot {folder}"):
        make_folder(folder)
        write_whole(folder / "pilot.json", msgspec.json.encode(msgspec.structs.replace(pilot, made=time.time())))
    return name


class Flight:
    """A pilot under way.

    Args:
        home: of the engine.
        name: of the pilot.
        say: hears each event of it as it happens.

    Raises:
        UsageError: there is no such pilot.
        StoreError: it cannot be read.
    """

    def __init__(self, home: Path, name: str, say: Callable[[Event], None] = lambda event: None) -> None:
        self.name, self._home, self._say = name, home, say
        self.folder = home / "pilots" / name
        if not _NAME.fullmatch(name) or not (self.folder / "pilot.json").is_file():
            raise UsageError(f"there is no pilot {name[:60]} in {home}")
        try:
            self.pilot = msgspec.json.decode((self.folder / "pilot.json").read_bytes(), type=Pilot)
        except (OSError, msgspec.DecodeError) as error:
            raise StoreError(f"pilot {self.folder}: cannot be read ({error}); begin it anew") from error
        self._check = Check(self.pilot.check)
        self._budget = self.pilot.terms.budget
        self._tools = toolbox(home)
        # A pilot's steps are attempts; how many steps a plan may have is another bound.
        self._terms = msgspec.structs.replace(
            self.pilot.terms, budget=msgspec.structs.replace(self._budget, steps=MOST_STEPS)
        )

    def fly(self) -> Flown:
        """Attempt until the check holds or the budget is spent; go on where a kill left it.

        Raises:
            UsageError: another process flies it, or the first plan may not run.
            StoreError: the disk refuses.
        """
        try:
            with FileLock(self.folder / "lock", timeout=2):
                return self._fly()
        except Timeout:
            raise UsageError(f"pilot {self.name} is being flown by another process; wait for it, or end it") from None

    def _fly(self) -> Flown:
        ledger = Ledger(self.folder)
        done = next((each for each in ledger.events if each.event == "done"), None)
        if done is not None:
            return self._flown(ledger, done.kind == "converged", done.why)
        if taken(self.folder) >= self._budget.seconds:
            return self._flown(ledger, False, f"the budget of {self._budget.seconds:g} s is spent")
        clock = Clock(self.folder)
        try:
            converged, why = self._attempts(ledger, clock)
        finally:
            clock.stop()
        if converged or why:
            self._add(ledger, Event(event="done", kind="converged" if converged else "spent", why=why))
        return self._flown(ledger, converged, why)

    def _attempts(self, ledger: Ledger, clock: Clock) -> tuple[bool, str]:
        """Attempts from where the ledger stands; whether it converged, and why it ended otherwise."""
        while True:
            begun = [each for each in ledger.events if each.event == "attempt"]
            judged = {each.step for each in ledger.events if each.event == "checked"}
            if not begun or begun[-1].step in judged:
                if any(each.kind == "holds" for each in ledger.events if each.event == "checked"):
                    return True, ""
                first = next((each for each in ledger.events if each.event == "checked"), None)
                if first is not None and first.kind == "unasked":  # no tool that drops rows mends that
                    return False, f"the check cannot be asked of what the plan gives: {first.why}"
                if len(begun) >= self._budget.steps:
                    return False, f"{len(begun)} of {self._budget.steps} attempts are made and the check does not hold"
                if clock.seconds >= self._budget.seconds - RESERVE:
                    return False, f"the budget of {self._budget.seconds:g} s is spent"
                job, why = self._next(ledger, clock)
                if job is None:
                    return False, why
                self._add(ledger, Event(event="attempt", step=str(len(begun) + 1), result=job.id, why=why))
                begun = [each for each in ledger.events if each.event == "attempt"]
            try:
                self._attempt(ledger, begun[-1], clock)
            except StepFailedError as error:
                failed = Event(event="checked", step=begun[-1].step, kind="failed", why=str(error))
                self._add(ledger, failed)

    def _attempt(self, ledger: Ledger, begun: Event, clock: Clock) -> None:
        """Run an attempt's job to its end, and ask the check of its result."""
        job = Job.find(self._home, begun.result)
        runner = Runner(self._home, self._known(), self._say)
        done = runner.run(job, clock=clock, paid=self.folder)
        result = _answer(job, runner, done.results)
        meter = Meter(self.folder / FILE, self._budget.tokens, self._budget.usd)
        try:
            verdict = self._check.ask(result, self.pilot.terms.model, meter)
        except UsageError as error:
            self._add(ledger, Event(event="checked", step=begun.step, kind="unasked", result=job.id, why=str(error)))
            return
        except SilvaError as error:
            raise StepFailedError(f"the check could not be asked: {error}") from error
        said = "; ".join(f"{each.text}: {each.said or each.holds}" for each in verdict.criteria)
        kind = "holds" if verdict.holds else "lacks"
        event = Event(event="checked", step=begun.step, kind=kind, result=job.id, why=said[:500], usd=verdict.score)
        self._add(ledger, event)

    def _next(self, ledger: Ledger, clock: Clock) -> tuple[Job | None, str]:
        """The job of the next attempt, and what is new in it; None where nothing is left to try, with the reason."""
        attempts = [each for each in ledger.events if each.event == "attempt"]
        if not attempts:
            return Job.begin(self._home, self.pilot.plan, self._terms), "the plan of the intent"
        rows = self._rows(attempts[0])
        first = next(each for each in ledger.events if each.event == "checked")
        if rows is None:
            return None, f"the first attempt gave no rows that a tool could be derived for ({first.why})"
        verdict = self._verdict(ledger)
        derived = self._derive(ledger, verdict, rows, clock)
        if isinstance(derived, str):
            return None, derived
        plan = self.pilot.plan
        source = next(step.id for step in reversed(plan.steps) if self._tools.cards[step.tool].output == "rows")
        made = msgspec.structs.replace(mended(plan, source, derived.name), planner=f"pilot {self.name}")
        checking.checked(made, self._known(), self._terms.granted, self._terms.budget)
        return Job.begin(self._home, made, self._terms), f"with the derived tool {derived.name} ({derived.id})"

    def _derive(self, ledger: Ledger, verdict: Verdict | None, rows: Rows, clock: Clock) -> Derived | str:
        """A tool that is tested and kept as a candidate; or why there is none."""
        lacking = verdict.lacking if verdict is not None else tuple(self._check.metrics)
        assets = Assets(self._home)
        used = {each.result for each in ledger.events if each.event == "derived"}
        failures = [each.why for each in ledger.events if each.event == "derived" and each.kind == "failed"]
        for _ in range(4):
            try:
                if self.pilot.toolsmith:
                    meter = Meter(self.folder / FILE, self._budget.tokens, self._budget.usd)
                    before = failures[-1] if failures else ""
                    made = written(self._check, lacking, rows, self.pilot.intent, self.pilot.toolsmith, meter, before)
                else:
                    # What a check says of findings is no condition on rows.
                    meant = lacking if self._tools.cards[self.pilot.plan.steps[-1].tool].output == "rows" else ()
                    found = composed(self._check, meant, used, self._tools, self.pilot.intent)
                    if found is None:
                        return "no further composition of tools is left to try; a model may write code: add --toolsmith"
                    made = found
                made = assets.keep(msgspec.structs.replace(made, job=self.name))
                made = assets.keep(
                    proven(made, self._tools, self._home, rows, self._budget.seconds - clock.seconds - RESERVE)
                )
            except Overrun as error:
                return str(error)
            except (UsageError, SilvaError) as error:
                return f"no tool was derived: {error}"
            failed = [trial for trial in made.trials if not trial.held]
            why = f"{failed[0].example}: {failed[0].said}" if failed else made.name
            self._add(
                ledger,
                Event(event="derived", step=made.id, result=made.digest, kind="failed" if failed else "held", why=why),
            )
            if not failed:
                return made
            used.add(made.digest)
            failures.append(why)
        return f"four derived tools did not pass their tests; the last one: {failures[-1]}"

    def _rows(self, first: Event) -> Rows | None:
        """The rows of the first attempt that a derived tool is given."""
        job = Job.find(self._home, first.result)
        ended = Ledger(job.folder).ended()
        for step in reversed(job.plan.steps):
            if step.id in ended and ended[step.id].kind == "rows":
                found = Runner(self._home, self._tools).artefact(ended[step.id].result)
                return found if isinstance(found, Rows) and found.rows else None
        return None

    def _verdict(self, ledger: Ledger) -> Verdict | None:
        """What the check says of the first attempt's result: a derived tool mends the plan of the intent."""
        first = next((each for each in ledger.events if each.event == "checked" and each.step == "1"), None)
        if first is None or first.kind == "failed" or self._check.kind == "judge":
            return None
        job = Job.find(self._home, first.result)
        runner = Runner(self._home, self._tools)
        ended = Ledger(job.folder).ended()
        return self._check.ask(_answer(job, runner, {name: ended[name].result for name in job.plan.last}))

    def _known(self) -> Toolbox:
        """All tools, with the candidates of this pilot."""
        mine = [each for each in Assets(self._home).derived() if each.job == self.name]
        base = self._tools.tools
        return Toolbox([*base.values(), *(tool_of(each, base) for each in mine if each.name not in base)])

    def _flown(self, ledger: Ledger, converged: bool, why: str) -> Flown:
        attempts = [each for each in ledger.events if each.event == "attempt"]
        checked = [each for each in ledger.events if each.event == "checked"]
        best = max((each.usd for each in checked), default=0.0)
        last = attempts[-1] if attempts else None
        found = re.search(r"cand_tool_[0-9a-f]{8}", last.why) if converged and last is not None else None
        tokens, usd = Meter(self.folder / FILE, self._budget.tokens, self._budget.usd).spent()
        return Flown(
            pilot=self.name,
            converged=converged,
            attempts=len(attempts),
            score=best,
            job=last.result if last is not None else "",
            candidate=found[0] if found else "",
            why=why,
            seconds=taken(self.folder),
            tokens=tokens,
            usd=usd,
        )

    def _add(self, ledger: Ledger, event: Event) -> None:
        self._say(ledger.add(event))


def mended(plan: Plan, source: str, tool: str) -> Plan:
    """A plan with a tool behind the step `source`: what took its rows takes the tool's: the same is checked again."""
    step = Step(id="derived", tool=tool, inputs={"rows": (source,)})
    steps: list[Step] = []
    for each in plan.steps:
        fed = {name: tuple(step.id if one == source else one for one in ids) for name, ids in each.inputs.items()}
        steps.append(msgspec.structs.replace(each, inputs=fed))
        steps += [step] if each.id == source else []
    return msgspec.structs.replace(plan, steps=tuple(steps))


def _answer(job: Job, runner: Runner, results: dict[str, str]) -> Artefact:
    """The artefact that a check is asked of: the last step's."""
    return runner.artefact(results[job.plan.last[-1]])
