"""The writer's lease of an object store: one writer of all machines, proven by the store's own clock, never by a pid.

    create or take over `writer.json` ─▶ a number of its own: `writers/NNNNNNNNNN.json`, created only if absent
       ─▶ renew every third of its time, by its tag, so that who was replaced finds out
       ─▶ not renewed in time: nothing is acknowledged any more (`lapsed`), whether or not another has come

A lease may be taken over when it was given back, when it has not been renewed for its time by the clock of the store
(clocks of machines differ), or when this process holds the lock of the very spool its holder wrote from: then that
holder is dead. The holder stops acknowledging before its time is over, by a clock that goes on while the machine
sleeps. The number only grows; it is part of the number of every segment its writer makes (`segment.numbered`), so no
two machines ever have a segment in common, and of two records of an id the later writer's is told from the earlier's.

`writers/` also says who ended without having brought all it acknowledged to the tables: `silva lake doctor` names them.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import re
import threading
import time
from typing import Any

from silva.errors import StoreError

LEASE, CLOCK, WRITERS = "writer.json", "writer.clock", "writers"
SECONDS = 60.0
"""How long a lease lasts that is not renewed."""
USABLE = 0.8
"""The part of that time in which its holder acknowledges."""
_FILE = re.compile(rf"{WRITERS}/(\d{{10}})\.json", re.ASCII)
log = logging.getLogger(__name__)


class Lease:
    """The lease, held and renewed by a thread.

    Args:
        bucket: the object store.
        spool: the name of the spool this process has the lock of.
        proof: what only the holder of that lock can say ("": nothing).

    Raises:
        StoreError: another writer's lease has not run out; the line names its pid.
    """

    def __init__(self, bucket: Any, spool: str, proof: str) -> None:
        self._bucket, self._spool, self._proof, self._seconds = bucket, spool, proof, SECONDS
        self._lost = False
        self._mutex = threading.Lock()
        self._ended = threading.Event()
        self.number = 0
        self._until = _clock() + USABLE * self._seconds
        self._sent = self._text()
        tag = bucket.create(LEASE, self._sent)
        self._tag: str = tag if tag is not None else self._take_over()
        self.number = self._numbered()
        self.check()  # from here on it says its number
        self._thread = threading.Thread(target=self._renew, name="silva-lease", daemon=True)
        self._thread.start()

    @property
    def lapsed(self) -> str | None:
        """Why the holder may not acknowledge any more, in one line; None while it may."""
        if self._lost:
            return f"lake {self._bucket.where}: another writer took the lease over; stop one of them"
        if _clock() < self._until:
            return None
        return (
            f"lake {self._bucket.where}: its lease could not be renewed for {self._seconds * USABLE:.0f} s, so another "
            "writer may begin; check the way to the object store, then open the lake again (all acknowledged is kept)"
        )

    def check(self) -> None:
        """Renew the lease now; raise where another has it, so that nothing more is committed."""
        self._replace()
        if self._lost:
            raise StoreError(self.lapsed or "")

    def release(self, *, whole: bool) -> None:
        """Stop renewing and let the next writer in. `whole`: all that was acknowledged from this spool is in the
        tables, so that no writer of it needs to be remembered."""
        self._ended.set()
        self._thread.join()
        if self._lost:
            return
        if whole:
            self._forget()
        self._replace(released=True)

    def _text(self, released: bool = False) -> bytes:
        said = {"pid": os.getpid(), "node": platform.node(), "writer": self.number, "seconds": self._seconds}
        until = 0.0 if released else time.time() + self._seconds  # older versions look at it
        own = {"spool": self._spool, "proof": self._proof, "once": os.urandom(8).hex()}
        return json.dumps({**said, **own, "until": until, "released": released}).encode()

    def _take_over(self) -> str:
        found = self._bucket.tagged(LEASE)
        if found is None:
            return self._bucket.create(LEASE, self._sent) or self._refuse({})
        data, tag = found
        if data == self._sent:  # the store had taken it, and the answer was lost
            return tag
        held = said(data)
        if not free(self._bucket, held, self._proof):
            self._refuse(held)
        self._until = _clock() + USABLE * self._seconds
        return self._bucket.replace(LEASE, self._sent, tag) or self._refuse(held)

    def _refuse(self, held: dict[str, Any]) -> str:
        seconds = held.get("seconds", self._seconds)
        raise StoreError(
            f"lake {self._bucket.where}: is being written by pid {held.get('pid', 'unknown')} of another machine or "
            f"process; wait for it to end (its lease lasts {seconds:.0f} s), or open it to read"
        )

    def _numbered(self) -> int:
        """A number no writer has had."""
        number = max((each["writer"] for each in writers(self._bucket)), default=0)
        body = {"spool": self._spool, "node": platform.node(), "pid": os.getpid(), "at": time.time()}
        while True:
            number += 1
            if self._bucket.create(_name(number), json.dumps({"writer": number, **body}).encode()) is not None:
                return number

    def _forget(self) -> None:
        """Nothing is owed from this spool: its writers ended well. The newest number stays: none comes again."""
        known = writers(self._bucket)
        newest = max((each["writer"] for each in known), default=0)
        for each in known:
            if each["writer"] == newest and each.get("spool") == self._spool:
                self._bucket.write(_name(newest), json.dumps({**each, "closed": time.time()}).encode())
            elif each["writer"] < newest and (each.get("spool") == self._spool or each.get("closed")):
                self._bucket.delete(_name(each["writer"]))

    def _renew(self) -> None:
        while not self._ended.wait(self._seconds / 3) and not self._lost:
            try:
                self._replace()
            except StoreError as error:  # tried again in a third of the lease's time
                log.warning("%s", error)
            if self.lapsed is not None and not self._lost:
                log.error("%s", self.lapsed)

    def _replace(self, released: bool = False) -> None:
        with self._mutex:
            if self._lost:
                return
            begun, before = _clock(), self._sent
            self._sent = self._text(released)
            tag = self._bucket.replace(LEASE, self._sent, self._tag)
            if tag is None:  # another's, or our own whose answer was lost
                data, there = self._bucket.tagged(LEASE) or (b"", "")
                tag = there if data == self._sent else None
                if tag is None and data == before:
                    tag = self._bucket.replace(LEASE, self._sent, there)
            if tag is None:
                self._lost = True
                log.error("%s", self.lapsed)
            else:
                self._tag, self._until = tag, begun + USABLE * self._seconds


def writers(bucket: Any) -> list[dict[str, Any]]:
    """What `writers/` says, by number: `writer`, `spool`, `node`, `pid`, `at`, and `closed` where all it acknowledged
    is in the tables. A damaged entry keeps its number and says no more."""
    found: list[dict[str, Any]] = []
    for name in bucket.names(WRITERS):
        file = _FILE.fullmatch(name)
        if file is not None:
            found.append({**said(bucket.read(name) or b""), "writer": int(file[1])})
    return sorted(found, key=lambda each: each["writer"])


def left(bucket: Any) -> list[dict[str, Any]]:
    """The writers that ended without having brought all to the tables; who holds the lease is not among them."""
    found = [each for each in writers(bucket) if not each.get("closed")]
    held = said(bucket.read(LEASE) or b"") if found else {}
    alive = held.get("writer") if not held.get("released") and held.get("until", 0.0) > time.time() else None
    return [each for each in found if each["writer"] != alive]


def free(bucket: Any, held: dict[str, Any], proof: str = "") -> bool:
    """Whether a lease that says `held` may be taken over by who can say `proof`."""
    if held.get("released") or (proof and held.get("proof") == proof):
        return True
    if "seconds" not in held:  # of an older version, which measured by the clocks of machines
        return held.get("until", 0.0) <= time.time()
    age = bucket.age(LEASE, CLOCK)
    return age is None or age > held["seconds"] + 1.0  # the store tells whole seconds


def said(data: bytes) -> dict[str, Any]:
    """The object in a small JSON file; an empty one where it holds none."""
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _name(number: int) -> str:
    return f"{WRITERS}/{number:010d}.json"


def _clock() -> float:
    # Unlike the monotonic clock this one goes on while the machine sleeps.
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
