"""Continuous batching: requests join and leave the batch between two steps, in one thread that owns the network.

    waiting ─ admit: copy a kept beginning, read the rest ─▶ row of the cache ─ step, step, … ─▶ done: row kept, hole
    filled. A prompt that is known but for its last id joins the next step without a reading of its own.

Rows in use are always the first ones, so a step works on plain slices; when one leaves, the last moves into its place.
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

from silva.models.local.network import Network, best_dtype
from silva.models.local.prefixes import SHORTEST, Prefixes, common
from silva.models.local.sampler import Choice, choose, ranked

if TYPE_CHECKING:
    from silva.models.local.adapter import Adapter

CHUNK = 512
"""Prompt tokens read between two steps of the others, of one request or of several."""


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
        rows: int = 32,
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
        self._reading: Job | None = None
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
        for job in [*self._running, *self._waiting, *([self._reading] if self._reading else [])]:
            job.finish = job.finish or "stopped"
            job.moved()

    def _turn(self) -> None:
        room = CHUNK
        while room > 0:
            self._admit()
            if self._reading is None:
                break
            if self._reading.read == len(self._reading.prompt) - 1:
                # Its last id alone is left, which the next step reads too: attempts at one prompt join at once.
                self._running.append(self._reading)
                self._reading = None
            else:
                room -= self._read(self._reading, room)
        if self._running:
            self._step()

    def _fail(self, fault: Exception) -> None:
        jobs = [*self._running, *([self._reading] if self._reading else [])]
        self._running, self._reading = [], None
        self._cache.release()
        for job in jobs:
            job.fault = fault
            job.finish = "failed"
            job.moved()

    def _admit(self) -> None:
        with self._wake:
            while self._waiting and self._waiting[0].cancelled:
                self._waiting.popleft()
            if self._reading is not None or not self._waiting or len(self._running) >= self._rows:
                return
            job = self._waiting[0]
            longest = max([job.room, *(other.room for other in self._running)])
            if self._running and longest * (len(self._running) + 1) > self._most_tokens:
                return
            self._waiting.popleft()
        row = len(self._running)
        self._reserve(row + 1, len(job.prompt) + 1)
        self._reuse(job, row)
        self._reading = job

    def _reuse(self, job: Job, row: int) -> None:
        found = self._prefixes.find(job.prompt, job.owner)
        shared, beside = max(SHORTEST - 1, found[1] if found else 0), -1
        for index, other in enumerate(self._running):
            more = job.prompt[: shared + 1]
            if other.owner == job.owner and shared + 1 < len(job.prompt) and other.prompt[: shared + 1] == more:
                shared, beside = common(other.prompt, job.prompt), index
        if beside >= 0:
            self._cache.move(beside, row, shared)
            job.cached = shared
        elif found is not None:
            self._cache.put(row, *found)
            job.cached = found[1]
        job.read = job.cached

    def _read(self, job: Job, most: int) -> int:
        if job.cancelled:
            self._reading = None
            return 0
        row = len(self._running)  # a row that left meanwhile would have shifted this one: see _leave
        chunk = job.prompt[job.read : job.read + most]
        logits = self.network.prefill(self._cache, row, chunk, job.read, job.adapter)
        job.read += len(chunk)
        if job.read == len(job.prompt):
            self._reading = None
            self._running.append(job)
            self._choose(logits[None], [job])
        return len(chunk)

    def _step(self) -> None:
        lengths = [len(job.prompt) + len(job.ids) - 1 for job in self._running]
        self._reserve(len(self._running), max(lengths) + 1)
        last = [(job.ids or job.prompt)[-1] for job in self._running]
        adapters = [job.adapter for job in self._running]
        self._choose(self.network.step(self._cache, last, lengths, adapters), self._running)

    def _choose(self, logits: torch.Tensor, jobs: list[Job]) -> None:
        ids, logprobs = choose(logits, [job.choice for job in jobs])
        for row, job in enumerate(jobs):
            if job.choice.top > 0:
                job.tops.append(ranked(logits[row], job.choice))
            self._accept(job, ids[row], logprobs[row])
        self._sweep()

    def _reserve(self, rows: int, length: int) -> None:
        if self._reading is not None:
            rows, length = len(self._running) + 1, max(length, len(self._reading.prompt) + 1)
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
        if not self._running and self._reading is None and not self._waiting:
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
        if self._reading is not None:  # a half-read prompt always lies right behind the running rows
            self._cache.move(last + 1, last, self._reading.read)


def choice(temperature: float | None, top_p: float | None, top_k: int | None, seed: int | None, top: int = 0) -> Choice:
    """How to sample, from what a request says; without a seed every request draws anew."""
    return Choice(
        random=Random() if seed is None else Random(seed),
        temperature=1.0 if temperature is None else temperature,
        top_p=1.0 if top_p is None else top_p,
        top_k=max(top_k or 0, 0),
        top=top,
    )
