"""Continuous batching: requests join and leave the batch between two steps, in one thread that owns the network.

    waiting ─ admit: copy a kept beginning ─▶ row of the cache ─ read the rest, of several at once ─▶ step, step, …
    ─▶ done: row kept, hole filled. Prompts that are known but for their last id join the next step without being read.

Rows in use are always the first ones, so a step works on plain slices; when one leaves, the last moves into its place.
Prompts are read together; one that mostly repeats another of them is read after it, to copy from it.
A request is admitted only if the longest possible rows of all in flight fit the memory bound.

Every job brings its own adapter or none, and keeps it to its end: what is loaded, unloaded or switched meanwhile
concerns later jobs. Rows of several versions are computed in one step.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from silva.models.local import ROWS
from silva.models.local.network import Network, best_dtype
from silva.models.local.prefixes import SHORTEST, Prefixes, common
from silva.models.local.sampler import Choice, choose, ranked

if TYPE_CHECKING:
    from silva.models.local.adapter import Adapter

CHUNK = 512
"""Prompt tokens read between two steps of the others, of one request or of several."""
TWICE = 64
"""So many ids that two prompts have in common are rather read twice, together, than once, one after the other."""


class Job:
    """One request in the engine. `moved` is called in the engine's thread after every token and at the end.

    The caller may set `finish` (from `moved`) to end it, `cancelled` to drop it.

    Args:
        prompt: ids to continue, at least one.
        most: bounds the reply in tokens.
        choice: how to sample.
        moved: see above.
        adapter: the adapter to answer with, or None for the plain weights.
        ends: ids that end the reply; None for the model's own end marks.
    """

    def __init__(
        self,
        prompt: list[int],
        most: int,
        choice: Choice,
        moved: Callable[[Job], None],
        adapter: Adapter | None = None,
        ends: frozenset[int] | None = None,
    ) -> None:
        self.adapter = adapter
        self.owner = "" if adapter is None else adapter.digest
        self.ends = ends
        self.tops: list[list[tuple[int, float]]] = []
        self.prompt = prompt
        self.most = most
        self.choice = choice
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.cached = 0
        self.read = 0
        self.finish = ""
        self.cancelled = False
        self.fault: BaseException | None = None
        self._moved = moved

    @property
    def room(self) -> int:
        """Tokens its row may come to hold."""
        return len(self.prompt) + self.most

    def moved(self) -> None:
        """Tell the caller."""
        self._moved(self)


class Engine:
    """The network of a folder, shared by all requests.

    Args:
        folder: weights in Hugging Face form.
        rows: most requests computed at once; more wait.
        memory: bytes the rows in flight may take; half as much again is used for kept beginnings.
        dtype: what to compute in; None chooses by the processor.
        threads: of torch; None leaves its default.
        ends: ids that end a reply, besides those the folder's configuration names.
    """

    def __init__(
        self,
        folder: Path,
        rows: int = ROWS,
        memory: int = 2 << 30,
        dtype: torch.dtype | None = None,
        threads: int | None = None,
        ends: frozenset[int] = frozenset(),
    ) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        self.network = Network(folder, dtype or best_dtype())
        self.network.ends |= ends
        self._rows = rows
        self._most_tokens = memory // self.network.token_bytes
        self._prefixes = Prefixes(self._most_tokens // 2)
        self._cache = self.network.cache(self._most_tokens)
        self._waiting: deque[Job] = deque()
        self._running: list[Job] = []
        self._reading: list[Job] = []
        self._wake = threading.Condition()
        self._stopping = False
        self._forgotten: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="silva-engine", daemon=True)

    def start(self) -> None:
        """Start computing."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the step under way; requests in flight end with finish `stopped`."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def submit(self, job: Job) -> None:
        """Take in a request; may be called from any thread."""
        with self._wake:
            self._waiting.append(job)
            self._wake.notify()

    def forget(self, adapter: Adapter) -> None:
        """Let go of the kept beginnings of an adapter that no request uses any more; may be called from any thread."""
        with self._wake:
            self._forgotten.add(adapter.digest)
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._waiting or self._running or self._reading or self._stopping or self._forgotten):
                    self._wake.wait()
                if self._stopping:
                    break
                forgotten, self._forgotten = self._forgotten, set()
            for owner in forgotten:
                self._prefixes.forget(owner)
            try:
                self._turn()
            except Exception as fault:  # noqa: BLE001 - e.g. out of memory: the requests in flight fail, the server goes on
                self._fail(fault)
        for job in [*self._running, *self._waiting, *self._reading]:
            job.finish = job.finish or "stopped"
            job.moved()

    def _turn(self) -> None:
        room = CHUNK
        while room > 0:
            self._admit(room)
            if not self._reading:
                break
            room -= self._read(room)
        if self._running:
            self._step()

    def _fail(self, fault: Exception) -> None:
        jobs = [*self._running, *self._reading]
        self._running, self._reading = [], []
        self._cache.release()
        for job in jobs:
            job.fault = fault
            job.finish = "failed"
            job.moved()

    def _admit(self, room: int) -> None:
        """Take in what is read together: as long as the longest of them, all fit `room`; or the next one alone. What is
        half read goes on alone."""
        if self._reading:
            return
        longest = 0
        while (job := self._next()) is not None:
            known = self._known(job)
            longest = max(longest, len(job.prompt) - known[0])
            if self._reading and (longest * (len(self._reading) + 1) > room or self._repeats(job, known[0])):
                return
            with self._wake:
                self._waiting.popleft()
            row = len(self._running) + len(self._reading)
            self._reserve(row + 1, len(job.prompt) + 1)
            self._copy(job, row, *known)
            self._reading.append(job)

    def _next(self) -> Job | None:
        """The request that waits longest, if there is room for it."""
        with self._wake:
            while self._waiting and self._waiting[0].cancelled:
                self._waiting.popleft()
            held = [*self._running, *self._reading]
            if not self._waiting or len(held) >= self._rows:
                return None
            job = self._waiting[0]
            longest = max([job.room, *(other.room for other in held)])
            return None if held and longest * (len(held) + 1) > self._most_tokens else job

    def _known(self, job: Job) -> tuple[int, tuple[Tensor, Tensor] | int | None]:
        """How many ids of a prompt are computed already, and where: in what is kept, or in the row of one that runs."""
        found = self._prefixes.find(job.prompt, job.owner)
        shared, where = (found[1], found[0]) if found else (0, None)
        for index, other in enumerate(self._running):
            more = max(shared + 1, SHORTEST)
            if other.owner == job.owner and more < len(job.prompt) and other.prompt[:more] == job.prompt[:more]:
                shared, where = common(other.prompt, job.prompt), index
        return shared, where

    def _repeats(self, job: Job, known: int) -> bool:
        """Whether much of a prompt that is not known stands in one that is to be read with it."""
        much = known + TWICE
        begins = job.prompt[:much]
        alike = (each.owner == job.owner and each.prompt[:much] == begins for each in self._reading)
        return much < len(job.prompt) and any(alike)

    def _copy(self, job: Job, row: int, known: int, where: tuple[Tensor, Tensor] | int | None) -> None:
        if isinstance(where, int):
            self._cache.move(where, row, known)
        elif where is not None:
            self._cache.put(row, where, known)
        job.cached = job.read = known

    def _read(self, most: int) -> int:
        """Read what was taken in, at most so many ids of each; returns how many were computed."""
        jobs = self._reading
        if len(jobs) == 1 and jobs[0].cancelled:
            self._reading = []
            return 0
        if all(len(job.prompt) - job.read == 1 for job in jobs):
            # Their last ids alone are left, which the next step reads too: attempts at one prompt join at once.
            self._running += jobs
            self._reading = []
            return 0
        chunks = [job.prompt[job.read : job.read + most] for job in jobs]
        starts, adapters = [job.read for job in jobs], [job.adapter for job in jobs]
        logits = self.network.prefill(self._cache, len(self._running), chunks, starts, adapters)
        for job, chunk in zip(jobs, chunks, strict=True):
            job.read += len(chunk)
        if jobs[0].read == len(jobs[0].prompt):
            self._reading = []
            self._running += jobs
            self._choose(logits, jobs)
        return max(map(len, chunks)) * len(jobs)

    def _step(self) -> None:
        lengths = [len(job.prompt) + len(job.ids) - 1 for job in self._running]
        self._reserve(len(self._running), max(lengths) + 1)
        last = [(job.ids or job.prompt)[-1] for job in self._running]
        adapters = [job.adapter for job in self._running]
        self._choose(self.network.step(self._cache, last, lengths, adapters), self._running)

    def _choose(self, logits: Tensor, jobs: list[Job]) -> None:
        ids, logprobs = choose(logits, [job.choice for job in jobs])
        for row, job in enumerate(jobs):
            if job.choice.top > 0:
                job.tops.append(ranked(logits[row], job.choice))
            self._accept(job, ids[row], logprobs[row])
        self._sweep()

    def _reserve(self, rows: int, length: int) -> None:
        if self._reading:
            rows = max(rows, len(self._running) + len(self._reading))
            length = max(length, *(len(job.prompt) + 1 for job in self._reading))
        longest = max((len(job.prompt) + len(job.ids) for job in self._running), default=0)
        self._cache.reserve(rows, max(length, longest))

    def _accept(self, job: Job, number: int, logprob: float) -> None:
        job.ids.append(number)
        job.logprobs.append(logprob)
        if number in (self.network.ends if job.ends is None else job.ends):
            job.finish = "stop"
        elif len(job.ids) >= job.most:
            job.finish = "length"
        job.moved()

    def _sweep(self) -> None:
        for row in reversed(range(len(self._running))):
            if self._running[row].finish or self._running[row].cancelled:
                self._leave(row)
        if not self._running and not self._reading and not self._waiting:
            self._cache.release()

    def _leave(self, row: int) -> None:
        job = self._running[row]
        if not job.cancelled:
            held = (job.prompt + job.ids)[:-1]  # the last id was sampled but never read
            self._prefixes.keep(held, self._cache.take(row, len(held)), job.owner)
        last = len(self._running) - 1
        if row != last:
            moved = self._running[last]
            self._cache.move(last, row, len(moved.prompt) + len(moved.ids) - 1)
            self._running[row] = moved
        self._running.pop()
        if self._reading:  # a half-read prompt, which is alone and always lies right behind the running rows
            self._cache.move(last + 1, last, self._reading[0].read)


def choice(temperature: float | None, top_p: float | None, top_k: int | None, seed: int | None, top: int = 0) -> Choice:
    """How to sample, from what a request says; without a seed every request draws anew."""
    return Choice(
        random=Random() if seed is None else Random(seed),
        temperature=1.0 if temperature is None else temperature,
        top_p=1.0 if top_p is None else top_p,
        top_k=max(top_k or 0, 0),
        top=top,
    )
