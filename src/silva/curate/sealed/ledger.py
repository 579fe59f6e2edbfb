"""The ledger of a sealed set: what was asked, approved, spent and let out. Spent before anything is computed.

    ask ─▶ lock ─▶ is there budget? no: refused ─▶ yes: written down, fsync ─▶ only then the rows are opened

A kill between the two costs the budget and lets nothing out. Every entry holds the digest of the one before it, so one
that is changed or taken out of the middle is seen; that the end was cut off, or the whole folder copied, is not.
"""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import msgspec
from filelock import FileLock, Timeout

from silva.curate.sealed.container import Sealed
from silva.errors import StoreError, UsageError
from silva.lake.durable import refusals, sync_folder
from silva.tree import Record

LEDGER = "ledger.jsonl"
_encode = msgspec.json.Encoder(order="deterministic").encode


class Entry(Record, frozen=True, kw_only=True):
    """One line.

    Attributes:
        kind: `approved`: a person allowed a program; `asked`: a question's cost; `let_out`, `refused`: what came of it.
        question: digest of what was asked: operator and settings, or program and shape.
        epsilon, bits: what it cost.
        runs: of an approval, how often the program may run.
        by: the person, or why it was refused (for the owner's eyes).
        release: digest of what was let out.
        signature: of an approval, the owner's (hex).
    """

    kind: Literal["approved", "asked", "let_out", "refused"]
    question: str
    at: float
    epsilon: float = 0.0
    bits: float = 0.0
    runs: int = 0
    by: str = ""
    release: str = ""
    signature: str = ""
    before: str = ""


class Ledger:
    """The ledger, held by this process alone. Use `held`."""

    def __init__(self, sealed: Sealed) -> None:
        self._path = sealed.folder / LEDGER
        self._policy = sealed.policy
        self._where = str(sealed.folder)
        self._whole = 0
        self.entries = self._read()

    @property
    def epsilon(self) -> float:
        """What was spent of the budget of differential privacy."""
        return sum(each.epsilon for each in self.entries if each.kind == "asked")

    @property
    def bits(self) -> float:
        """How many bits approved programs could let out so far."""
        return sum(each.bits for each in self.entries if each.kind == "asked")

    def spend(self, question: str, *, epsilon: float = 0.0, bits: float = 0.0) -> None:
        """Write down what a question costs, durably, before it is answered.

        Raises:
            UsageError: there is not so much left.
        """
        if self.epsilon + epsilon > self._policy.epsilon + 1e-12:
            left = max(0.0, self._policy.epsilon - self.epsilon)
            raise UsageError(f"{self._where}: the budget is spent: epsilon {epsilon:g} is asked, {left:g} is left")
        if self.bits + bits > self._policy.bits + 1e-9:
            left = max(0.0, self._policy.bits - self.bits)
            raise UsageError(f"{self._where}: the budget is spent: {bits:.1f} bits are asked, {left:.1f} are left")
        self.write(Entry(kind="asked", question=question, at=time.time(), epsilon=epsilon, bits=bits))

    def write(self, entry: Entry) -> Entry:
        """Append an entry, durably.

        Raises:
            StoreError: it cannot be written.
        """
        before = _digest(_encode(self.entries[-1])) if self.entries else ""
        entry = msgspec.structs.replace(entry, before=before)
        entry = msgspec.json.decode(_encode(entry), type=Entry)  # as it will be read
        with refusals(self._where):
            new = not self._path.exists()
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.ftruncate(descriptor, self._whole)  # the torn end of a write that a kill interrupted
                line = _encode(entry) + b"\n"
                if os.write(descriptor, line) != len(line):
                    raise OSError(errno.ENOSPC, "No space left on device")
                os.fsync(descriptor)
                self._whole += len(line)
            finally:
                os.close(descriptor)
            if new:
                sync_folder(self._path.parent)
        self.entries.append(entry)
        return entry

    def _read(self) -> list[Entry]:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return []
        found: list[Entry] = []
        self._whole = data.rfind(b"\n") + 1
        for number, line in enumerate(data[: self._whole].split(b"\n")[:-1], 1):
            try:
                entry = msgspec.json.decode(line, type=Entry)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise StoreError(f"{self._where}: {LEDGER} line {number} is damaged; nothing is answered") from error
            if entry.before != (_digest(_encode(found[-1])) if found else ""):
                raise StoreError(f"{self._where}: {LEDGER} line {number} does not follow the one before it")
            if min(entry.epsilon, entry.bits) < 0:
                raise StoreError(f"{self._where}: {LEDGER} line {number} gives budget back; nothing is answered")
            found.append(entry)
        return found


@contextmanager
def held(sealed: Sealed) -> Iterator[Ledger]:
    """The ledger, while nobody else has it.

    Raises:
        StoreError: another process asks just now, or it is damaged.
    """
    lock = FileLock(sealed.folder / "ledger.lock")
    try:
        lock.acquire(timeout=60)
    except Timeout as error:
        raise StoreError(f"{sealed.folder}: another question is being answered; come again") from error
    try:
        yield Ledger(sealed)
    finally:
        lock.release()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
