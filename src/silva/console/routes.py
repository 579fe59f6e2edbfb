"""What the server answers, by path: the role that is needed, and the question or the order behind it.

GET  /api/…    a question to `Reading` or `Orders.words`; its query holds the arguments
POST /api/…    an order; its body is JSON
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from silva.console.admission import Admission, Admit
from silva.console.attempt import CUT, RUNNING
from silva.console.data_engine import job, overview
from silva.console.inbox import inbox
from silva.console.loops import Loops
from silva.console.orders import Label, Orders, Promote, Save, Say
from silva.console.rating import Rate, Ratings
from silva.console.reading import PAGE, Reading
from silva.console.redteaming import plan, plans
from silva.console.timeline import timeline
from silva.console.trail import Trail
from silva.console.trained import text_of, trained, trained_run, trajectory_of
from silva.console.users import User
from silva.console.workspace import workspace
from silva.errors import UsageError
from silva.guide import events

Query = dict[str, str]
Body = TypeVar("Body", bound=msgspec.Struct)


class Question(msgspec.Struct, frozen=True):
    """A GET: who may ask, and what answers."""

    role: str
    answer: Callable[[Query], Any]


class Order(msgspec.Struct, frozen=True):
    """A POST: who may, and what does it."""

    role: str
    do: Callable[[User, bytes], Any]


def questions(
    reading: Reading, orders: Orders, trail: Trail, loops: Loops, ratings: Ratings, admission: Admission
) -> dict[str, Question]:
    """Every question by its path. Of each the query's `me` is who asks, whatever the page says."""

    def place(query: Query) -> dict[str, str]:
        return {name: query.get(name, "") for name in ("id", "tree", "leaf")}

    def attempts(query: Query) -> Any:
        return reading.attempts(
            run=query.get("run", ""),
            where=query.get("where", ""),
            text=query.get("text", ""),
            sort=query.get("sort", "moved"),
            descending=query.get("descending", "1") == "1",
            offset=_whole(query, "offset", 0),
            limit=_whole(query, "limit", PAGE),
            scores=query.get("scores", ""),
        )

    def timed(query: Query) -> Any:
        nodes, head, _ = reading.path(**place(query))
        if head is None:
            raise UsageError("the question needs id: a timeline is of an attempt")
        happened = events(reading.lake, head.run).read()
        ended = head.status not in (RUNNING, CUT)
        return timeline(nodes, head.id, happened, head.moved if ended or head.status == CUT else time.time())

    def files(query: Query) -> Any:
        nodes, _, run = reading.path(**place(query))
        return workspace(nodes, query.get("node", ""), run, query.get("path", ""))

    def training_of(query: Query) -> Any:
        if not query.get("id"):
            return trained_run(reading.lake, _needed(query, "run"))
        nodes, head, run = reading.path(id=query["id"])
        record = trajectory_of(reading.lake, head.id) if head is not None else None
        if head is None or record is None:
            raise UsageError("it has not ended: what will be trained is known then")
        return {**trained(reading.lake, record, nodes, text_of(run)), "row": reading.watch.told(head)}

    def ids(query: Query) -> list[str]:
        return [id for id in _needed(query, "ids").split(",") if id]

    return {
        "runs": Question("viewer", lambda query: {"runs": reading.runs()}),
        "run": Question("viewer", lambda query: reading.run(_needed(query, "run"), "brief" in query)),
        "attempts": Question("viewer", attempts),
        "walk": Question("viewer", lambda query: reading.walk(**place(query), after=query.get("after", ""))),
        "nodes": Question("viewer", lambda query: {"nodes": reading.nodes(_needed(query, "tree"), ids(query))}),
        "context": Question("viewer", lambda query: reading.context(_needed(query, "tree"), _needed(query, "node"))),
        "branches": Question("viewer", lambda query: reading.branches(_needed(query, "tree"))),
        "find": Question("viewer", lambda query: {"found": reading.find(_needed(query, "text"), **place(query))}),
        "work": Question("viewer", lambda query: reading.work(**place(query), after=_whole(query, "after", 0))),
        "inbox": Question("viewer", lambda query: inbox(reading.watch, reading.trees)),
        "timeline": Question("viewer", timed),
        "lanes": Question("viewer", lambda query: reading.lanes(_needed(query, "run"))),
        "workspace": Question("viewer", files),
        "trained": Question("viewer", training_of),
        "scaling": Question("viewer", lambda query: {"scaling": reading.scaling(_needed(query, "run"))}),
        "judged": Question("viewer", lambda query: {"judged": reading.judged(_needed(query, "run"))}),
        "words": Question("viewer", lambda query: orders.words(_needed(query, "run"))),
        "turns": Question(
            "viewer", lambda query: {"turns": reading.turns(query.get("text", ""), query.get("where", ""))}
        ),
        "images": Question("viewer", lambda query: {"images": reading.images()}),
        "compare": Question("viewer", lambda query: reading.compare(_needed(query, "left"), _needed(query, "right"))),
        "compare-runs": Question(
            "viewer", lambda query: reading.compare_runs(_needed(query, "left"), _needed(query, "right"))
        ),
        "training": Question("viewer", lambda query: reading.training()),
        "redteam": Question(
            "viewer",
            lambda query: plan(reading, query["plan"]) if query.get("plan") else {"plans": plans(reading)},
        ),
        "elf": Question(
            "viewer",
            lambda query: (
                job(reading.lake.location, query["job"]) if query.get("job") else overview(reading.lake.location)
            ),
        ),
        "loops": Question("viewer", lambda query: {"loops": loops.every()}),
        "loop": Question("viewer", lambda query: loops.one(_needed(query, "id"), query.get("seen", ""))),
        "admission": Question("viewer", lambda query: admission.waiting()),
        "rating": Question(
            "viewer", lambda query: ratings.asked(_needed(query, "of"), query["me"], query.get("at", ""))
        ),
        "agreement": Question("viewer", lambda query: ratings.agreement(_needed(query, "of"), query["me"])),
        "curve": Question("viewer", lambda query: {"points": reading.curve(_needed(query, "run"))}),
        "trail": Question("admin", lambda query: {"deeds": trail.read()}),
    }


def order_routes(orders: Orders) -> dict[str, Order]:
    """Every order by its path."""
    return {
        "say": Order("guide", lambda user, body: orders.say(user, _read(body, Say))),
        "label": Order("guide", lambda user, body: orders.label(user, _read(body, Label))),
        "promote": Order("guide", lambda user, body: orders.promote(user, _read(body, Promote))),
        "admit": Order("guide", lambda user, body: orders.admit(user, _read(body, Admit))),
        "rate": Order("guide", lambda user, body: orders.rate(user, _read(body, Rate))),
        "dataset": Order("guide", lambda user, body: orders.save(user, _read(body, Save))),
    }


def _needed(query: Query, name: str) -> str:
    value = query.get(name, "")
    if not value:
        raise UsageError(f"the question needs {name}")
    return value


def _whole(query: Query, name: str, default: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not text.isdigit() or len(text) > 9:
        raise UsageError(f"{name} is a whole number, not {text[:20]!r}")
    return int(text)


def _read(body: bytes, kind: type[Body]) -> Body:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the order is not understood: {error}") from error
