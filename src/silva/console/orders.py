"""What people do from a page: speak to a run, label a turn, save a filter as a data set, let a derived tool in.

    order ─▶ trail (who means to do what) ─┬▶ silva.guide ─▶ the run's mailbox ─▶ its engine
                                           ├▶ Supervision ─▶ the lake (of a run that has ended)
                                           └▶ data set ─▶ a file that silva.train reads

A rating of a pair of steps is such a record, too (`silva.curate.ratings`).

A lake has one writer. While a run is going on, a label travels as a word and its engine records it; of a run that has
ended it is written here, which takes the writer's lock for a moment.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

import silva.guide as guide
from silva.console.admission import Admission, Admit
from silva.console.data_engine import promote
from silva.console.rating import Rate, Ratings
from silva.console.reading import Reading
from silva.console.trail import Trail
from silva.console.users import User
from silva.errors import SilvaError, UsageError
from silva.guide.event import became_of, waiting_of
from silva.lake import Lake, parse
from silva.train.data.dataset import DataSet, write_dataset
from silva.train.data.entries import read_entries
from silva.tree import Supervision

SHOWN = 200
"""Words of a run that a page is given, the newest."""
VERDICTS = ("good", "bad", "keep", "mask", "note")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


class Say(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Something said to a run; see `silva.guide`."""

    run: str
    kind: str
    to: str = "*"
    text: str = ""
    why: str = ""
    turn: int = 0
    pattern: str = ""
    action: str = ""
    node: str = ""
    id: str = ""


class Label(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A person's judgement on a node."""

    run: str
    node: str
    verdict: str
    reason: str = ""


class Save(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A filter to be saved as a data set."""

    name: str
    where: str = ""
    run: str = ""
    part: str = "train"
    success: bool = False
    replace: bool = False


class Promote(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A derived tool that a person lets in; see `silva.elf.derived`."""

    candidate: str
    name: str = ""


class Orders:
    """Carries them out. Every method blocks.

    Args:
        reading: the lake.
        trail: where deeds are noted.
        datasets: the folder of data sets.
        ratings: pairs that people rate.
        admission: tasks that wait for a person.
    """

    def __init__(self, reading: Reading, trail: Trail, datasets: Path, ratings: Ratings, admission: Admission) -> None:
        self._reading, self._trail, self._datasets = reading, trail, datasets
        self._ratings, self._admission = ratings, admission

    def say(self, user: User, order: Say) -> dict[str, Any]:
        """Speak to a run.

        Raises:
            UsageError: it cannot be said; the line tells why.
            StoreError: it cannot be kept.
        """
        fields = {name: value for name, value in msgspec.structs.asdict(order).items() if value not in ("", 0)}

        def done() -> dict[str, Any]:
            more = {name: value for name, value in fields.items() if name not in ("run", "kind")}
            said = guide.post(self._reading.lake, order.run, order.kind, user.name, **more)
            return {"said": [msgspec.to_builtins(each) for each in said]}

        return self._noted(user, order.kind, fields, done)

    def label(self, user: User, order: Label) -> dict[str, Any]:
        """Judge a node of a run that has ended.

        Raises:
            UsageError: the run goes on, or there is no such verdict or node.
            StoreError: another process writes the lake.
        """
        fields = msgspec.structs.asdict(order)

        def done() -> dict[str, Any]:
            if order.verdict not in VERDICTS:
                raise UsageError(f"there is no verdict {order.verdict[:40]!r}: there are {', '.join(VERDICTS)}")
            if len(order.reason) > 64_000:
                raise UsageError("a reason may hold 64,000 characters")
            with self._reading.watch.lock:
                run = self._reading.watch.forest.runs.get(order.run)
            if run is not None and not run.finished:
                raise UsageError(
                    f"run {order.run} goes on: say good or bad to its trajectory, and its engine records it"
                )
            if not self._reading.lake.nodes(run_id=order.run, where=parse(f"id = '{_hex(order.node)}'"), limit=1):
                raise UsageError(f"run {order.run[:80]}: has no node {order.node[:40]}")
            record = Supervision(
                id=secrets.token_hex(16),
                node_id=order.node,
                run_id=order.run,
                verdict=order.verdict,  # pyright: ignore[reportArgumentType]
                source="person",
                by=user.name,
                reason=order.reason,
                at=time.time(),
                attributes={"kind": "label"},
            )
            with Lake.open(self._reading.lake.location) as writing:
                writing.append_sync([record])
            return {"id": record.id}

        return self._noted(user, f"label {order.verdict}", fields, done)

    def save(self, user: User, order: Save) -> dict[str, Any]:
        """Save the trajectories that meet a condition as a data set.

        Raises:
            UsageError: the name is taken or none, the condition is none, or nothing meets it.
        """
        fields = msgspec.structs.asdict(order)

        def done() -> dict[str, Any]:
            if not _NAME.fullmatch(order.name):
                raise UsageError(f"data set {order.name[:80]!r}: letters, digits, '.', '_' and '-' only, at most 80")
            condition = parse(order.where) if order.where else None
            runs = (order.run,) if order.run else ()
            entries = read_entries(self._reading.lake, runs, where=condition, success=order.success)
            path = self._datasets / f"{order.name}.jsonl"
            self._datasets.mkdir(parents=True, exist_ok=True)
            made = f"console by {user.name} where={order.where or '-'} run={order.run or '-'} success={order.success}"
            write_dataset(path, DataSet(part=order.part, entries=tuple(entries), made=made), replace=order.replace)
            return {"path": str(path), "entries": len(entries)}

        return self._noted(user, "save data set", fields, done)

    def promote(self, user: User, order: Promote) -> dict[str, Any]:
        """Let a candidate of the data engine become a tool, under this person's name.

        Raises:
            UsageError: there is none of that id, its tests did not hold, or the name is none.
        """
        fields = msgspec.structs.asdict(order)
        lake = self._reading.lake.location
        return self._noted(user, "promote", fields, lambda: promote(lake, order.candidate, order.name, user.name))

    def rate(self, user: User, order: Rate) -> dict[str, Any]:
        """Rate a pair of steps.

        Raises:
            UsageError: there is no such pair, or the word is none.
            StoreError: another process writes the lake.
        """
        fields = msgspec.structs.asdict(order)
        return self._noted(user, "rate pair", fields, lambda: self._ratings.rate(order, user.name))

    def admit(self, user: User, order: Admit) -> dict[str, Any]:
        """Let a task that a loop made be learnt on, or not.

        Raises:
            UsageError: the run has no such task, or it does not wait.
            StoreError: another process writes the lake.
        """
        did = "approve task" if order.approved else "refuse task"
        fields = {"run": order.run, "task": order.task, "why": order.why}
        return self._noted(user, did, fields, lambda: self._admission.decide(order, user.name))

    def words(self, run: str) -> dict[str, Any]:
        """Everything that was said to a run, what became of it, and who waits for approval."""
        lake = self._reading.lake
        happened = guide.events(lake, run).read()
        return {
            "words": [msgspec.to_builtins(each) for each in guide.words(lake, run)[-SHOWN:]],
            "waiting": [msgspec.to_builtins(each) for each in waiting_of(happened)],
            "fates": {id: fate.shown() for id, fate in became_of(happened).items()},
        }

    def _noted(
        self, user: User, did: str, fields: dict[str, Any], deed: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """Do it, and note it either way. It is noted first that it is meant: a deed without a line cannot be."""
        facts = {name: value for name, value in fields.items() if name not in ("kind", "verdict")}
        self._trail.add(user.name, user.role, did, "begun", **facts)
        try:
            made = deed()
        except SilvaError as error:
            self._trail.add(user.name, user.role, did, f"refused: {error}")
            raise
        self._trail.add(user.name, user.role, did, "done")
        return made


def _hex(id: str) -> str:
    if not re.fullmatch(r"[0-9A-Za-z:._-]{1,100}", id):
        raise UsageError(f"{id[:40]!r} is no node's id")
    return id
