"""The assembler: says when a session is made into trajectories, and has it done.

    kept arrivals ─▶ by session (the conversation they name, else their trace)
       root ended and quiet for `settle` s, or quiet for `quiet` s ─▶ Worker ─▶ images, run, records, note ─▶ lake
       more comes later ─▶ open again: all of it is read from the lake, and compared with what was made

Nothing here need survive a kill: what was kept and not made is found again at the next start, by the notes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from silva.errors import SilvaError
from silva.lake.entry import Arrival
from silva.lake.filters import field
from silva.lake.ingest.assembling import ASSEMBLED, Made, Session, failed
from silva.lake.ingest.intake import Intake
from silva.lake.ingest.limits import Refused
from silva.lake.ingest.pending import Pending, Waiting
from silva.lake.ingest.worker import Ended, Worker
from silva.lake.lake import Lake
from silva.tree import Run

log = logging.getLogger(__name__)

TICK = 0.2
BATCH, BATCH_BYTES = 200, 16 << 20
"""Sessions, and bytes of what arrived of them, that are made at once."""
EMBED_SECONDS = 15.0
END_SECONDS = 20.0
"""How long an ending server goes on making trajectories; the next one makes the rest."""

_LEFT = """with told as (
  select trace, max(conversation) as conversation, count(*) as n, max(run) as run from arrivals
  where kind <> 'assembled' group by trace)
select coalesce(nullif(conversation, ''), trace) as key, list(trace) as traces, sum(n) as n from told group by 1"""

# A note says under `started` of how many arrivals it was made.
_NOTES = f"select conversation as key, max(started) as n from arrivals where kind = '{ASSEMBLED}' group by 1"


class Assembler:
    """Makes trajectories of what an intake keeps.

    Args:
        intake: the intake.
        worker: reads them.
        settle: seconds of quiet after the root of a trace ended.
        quiet: seconds of quiet without.
        embed: gives texts vectors, stored for every node (None: not done).

    Attributes:
        made, amended: how many trajectories were made, and sessions made anew because more of them came.
        wordless: how many sessions hold no message: they are kept, and no trajectory is made of them.
        troubles: how many sessions had something that could not be read; `trouble` is the last one.
    """

    def __init__(
        self,
        intake: Intake,
        worker: Worker,
        *,
        settle: float = 1.0,
        quiet: float = 30.0,
        embed: Callable[[Lake], int] | None = None,
    ) -> None:
        self._intake, self._worker, self._embed = intake, worker, embed
        self._settle, self._quiet = settle, quiet
        self._pending = Pending()
        self._runs: dict[str, Run] = {}
        self._task: asyncio.Task[None] | None = None
        self._embedded = 0.0
        self.made = self.amended = self.wordless = self.troubles = 0
        self.trouble = ""

    def saw(self, arrivals: Sequence[Arrival]) -> None:
        """These were kept."""
        self._pending.add(arrivals, time.monotonic())

    def status(self) -> dict[str, Any]:
        """How far it is."""
        return {
            "open": len(self._pending),
            "made": self.made,
            "amended": self.amended,
            "wordless": self.wordless,
            "troubles": self.troubles,
            "trouble": self.trouble,
        }

    async def begin(self) -> None:
        """Start, with what an earlier server kept and did not make."""
        await asyncio.to_thread(self._find_left)
        self._task = asyncio.create_task(self._run())

    async def end(self) -> None:
        """Make what is there, and stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        until = time.monotonic() + END_SECONDS
        try:
            while (due := self._pending.due(time.monotonic(), -1.0, -1.0)) and time.monotonic() < until:
                if not await self._make(due[:BATCH]):
                    break
            finished = [self._ended(run) for run in self._runs.values()]
            await self._intake.write(finished)
        except (SilvaError, Refused) as refused:
            log.warning("what is not made yet is made at the next start: %s", refused)
        self._worker.close()

    def _find_left(self) -> None:
        lake = self._intake.lake
        rows = lake.sql(_LEFT).to_pylist()
        notes: dict[str, int] = {}
        for row in lake.sql(_NOTES).to_pylist():
            notes[row["key"]] = int(row["n"])
        for row in rows:
            known = notes.get(row["key"])
            self._pending.remember(row["key"], row["traces"], made=known is not None)
            if known is None or known < int(row["n"]):
                self._pending.reopen(row["key"], row["traces"])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            try:
                due = self._pending.due(time.monotonic(), self._settle, self._quiet)
                while due and await self._make(due[:BATCH]):
                    due = due[BATCH:]
                if self._embed is not None and self.made and time.monotonic() - self._embedded > EMBED_SECONDS:
                    self._embedded = time.monotonic()
                    await asyncio.to_thread(self._embed, self._intake.lake)
            except (SilvaError, Refused) as error:
                log.warning("sessions wait to be made: %s", error)
                await asyncio.sleep(2.0)
            except Exception:
                log.exception("sessions wait to be made, by a fault of Silva's own")
                await asyncio.sleep(2.0)

    async def _make(self, due: Sequence[Waiting]) -> bool:
        """Make some sessions; whether they are in the lake now."""
        some: list[tuple[Waiting, int, Session]] = []
        size = 0
        for waiting in due:
            if size > BATCH_BYTES:
                break
            count = waiting.count
            session = await self._session(waiting)
            if session is None:
                self._pending.done(waiting, count)
                continue
            size += sum(each.size for each in session.arrivals)
            some.append((waiting, count, session))
        made = await asyncio.to_thread(self._assembled, [session for _, _, session in some])
        await self._write(made)
        for (waiting, count, _), each in zip(some, made, strict=True):
            self._pending.done(waiting, count)
            self.made += each.trajectories
            self.amended += each.amended
            self.wordless += not each.trajectories
            if each.troubles:
                self.troubles += 1
                self.trouble = f"{each.key}: {each.troubles[0]}"
                log.warning("session %s: %s (what came is kept)", each.key, each.troubles[0])
        return True

    async def _session(self, waiting: Waiting) -> Session | None:
        """All there is of a session."""
        if waiting.arrivals is not None:
            return Session(key=waiting.key, arrivals=tuple(waiting.arrivals), at=time.time())
        return await asyncio.to_thread(self._loaded, waiting)

    def _loaded(self, waiting: Waiting) -> Session | None:
        lake, traces, key = self._intake.lake, set(waiting.traces), waiting.key
        found: dict[str, Arrival] = {}
        for _ in range(2):  # the second time, with the other traces of the conversation that the first has named
            condition = field("trace").is_in(sorted(traces)) | (field("conversation") == key)
            found.update({each.id: each for each in lake.arrivals(where=condition)})
            named = next((each.conversation for each in found.values() if each.conversation), "")
            more = {each.trace for each in found.values() if each.trace}
            if more <= traces and (not named or named == key):
                break
            traces |= more
            key = named or key
        arrivals = [each for each in found.values() if each.kind != ASSEMBLED]
        notes = lake.arrivals(where=field("conversation").is_in(sorted({key, *traces})))
        before = [each for each in notes if each.kind == ASSEMBLED]
        if not arrivals:
            return None
        return Session(key=key, arrivals=tuple(arrivals), before=tuple(before), at=time.time())

    def _assembled(self, sessions: list[Session]) -> list[Made]:
        if not sessions:
            return []
        try:
            return self._worker.assemble(sessions)
        except Ended:
            if len(sessions) == 1:
                return [failed(sessions[0], "the process that read it ended")]
            return [made for each in sessions for made in self._assembled([each])]

    async def _write(self, made: Sequence[Made]) -> None:
        runs = [run for run in {each.run for each in made if each.trajectories} if run not in self._runs]
        for name in runs:
            known = await asyncio.to_thread(self._intake.lake.run, name)
            run = known or Run(id=name, command="ingest", envs=("imported",), started=time.time())
            await self._intake.write([run])
            self._runs[name] = run
        for each in made:
            for data in each.blobs.values():
                await self._intake.lake.put_blob(data)
        records = [record for each in made for record in each.records]
        if records:
            await self._intake.write_encoded(records)

    def _ended(self, run: Run) -> Run:
        return msgspec.structs.replace(run, status="completed", finished=time.time())
