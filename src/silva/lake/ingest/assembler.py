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
        took = 0.0
        while True:
            await asyncio.sleep(max(TICK, 20 * took))  # to look through very many takes the loop some time
            try:
                begun = time.monotonic()
                due = self._pending.due(begun, self._settle, self._quiet)
                took = time.monotonic() - begun
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
        chosen: list[Waiting] = []
        size = 0
        for waiting in due:
            if size > BATCH_BYTES:
                break
            size += waiting.size
            chosen.append(waiting)
        counts = [each.count for each in chosen]
        at_hand = {each.key: tuple(each.arrivals) for each in chosen if each.arrivals is not None}
        loaded = await asyncio.to_thread(self._loaded, [each for each in chosen if each.key not in at_hand])
        sessions = [
            Session(key=each.key, arrivals=at_hand[each.key], at=time.time())
            if each.key in at_hand
            else loaded.get(each.key)
            for each in chosen
        ]
        made = await asyncio.to_thread(self._assembled, [each for each in sessions if each is not None])
        await self._write(made)
        for waiting, count in zip(chosen, counts, strict=True):
            self._pending.done(waiting, count)
        for each in made:
            self.made += each.trajectories
            self.amended += each.amended
            self.wordless += not each.trajectories and not each.troubles
            if each.troubles:
                self.troubles += 1
                self.trouble = f"{each.key}: {each.troubles[0]}"
                log.warning("session %s: %s (what came is kept)", each.key, each.troubles[0])
        return True

    def _loaded(self, some: Sequence[Waiting]) -> dict[str, Session]:
        """All there is of some sessions, by their keys as they wait."""
        if not some:
            return {}
        traces = {each.key: set(each.traces) for each in some}
        keys = {each.key: each.key for each in some}
        found: dict[str, Arrival] = {}
        by_trace: dict[str, list[Arrival]] = {}
        by_name: dict[str, list[Arrival]] = {}
        asked: set[str] = set()
        for _ in range(2):  # the second time, with the other traces of the conversations that the first has named
            every = {*keys.values(), *(trace for each in traces.values() for trace in each)}
            if not (wanted := sorted(every - asked)):
                break
            asked |= every
            for each in self._intake.lake.arrivals(
                where=field("trace").is_in(wanted) | field("conversation").is_in(wanted)
            ):
                if each.id not in found:
                    found[each.id] = each
                    by_trace.setdefault(each.trace, []).append(each)
                    by_name.setdefault(each.conversation, []).append(each)
            for own in keys:
                told = [each for trace in traces[own] for each in by_trace.get(trace, ())]
                keys[own] = next((each.conversation for each in told if each.conversation), keys[own])
                told += [each for each in by_name.get(keys[own], ()) if each.kind != ASSEMBLED]
                traces[own] |= {each.trace for each in told}
        sessions: dict[str, Session] = {}
        for own, key in keys.items():
            arrivals = tuple(
                each for trace in traces[own] for each in by_trace.get(trace, ()) if each.kind != ASSEMBLED
            )
            names = sorted({own, key, *traces[own]})
            before = tuple(each for name in names for each in by_name.get(name, ()) if each.kind == ASSEMBLED)
            if arrivals:
                sessions[own] = Session(key=key, arrivals=arrivals, before=before, at=time.time())
        return sessions

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
