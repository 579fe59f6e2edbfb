"""A whole run over wall-clock time: a lane for every attempt.

attempts (rows) ─▶ lanes, in the order they began ─┬▶ turns     from the nodes' columns: when each action was taken
events of guidance ────────────────────────────────┼▶ waits     for approval, and pauses
                                                   ├▶ words     of people: what was said, or ordered, and by whom
                                                   └▶ the end   status, score, and why where it failed
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from silva.console.attempt import RUNNING, Attempt
from silva.console.timeline import waits
from silva.guide.event import Event
from silva.lake import Lake
from silva.lake.filters import literal

MOST_LANES = 200
"""Attempts of one run that get a lane, those that moved last."""
MOST_TURNS = 400
"""Turns of one lane; where there are more, of those that lie close only the first is given."""
_ORDERS = ("pause", "resume")


class Moment(msgspec.Struct, frozen=True):
    """A turn, or a person's words, of the attempt at `place` (tree and slot), at a time (Unix seconds)."""

    place: tuple[str, str]
    at: float
    node: str
    person: bool = False
    text: str = ""


def lanes(
    attempts: Sequence[Attempt],
    moments: Iterable[Moment],
    happened: Iterable[Event],
    states: Mapping[str, str],
    now: float,
) -> dict[str, Any]:
    """The lanes of a run.

    Args:
        attempts: of one run.
        moments: turns and words of their walks, in any order.
        happened: the events of the run.
        states: of the attempts under way, by id (`presence`).
        now: Unix seconds.

    Returns:
        `begin` and `end` (Unix seconds), `of` (how many attempts there are) and `lanes`: for each `id`, `task`, `slot`,
        `status`, `state`, `score`, `success`, `failure`, `begin`, `end`, `count` (its turns), `turns` (`at`, `node`),
        `waits` (`kind`: approval or pause; `at`, `seconds`, `node`, `text`) and `words` (`at`, `node`, `text`).
    """
    told: dict[str, list[Event]] = defaultdict(list)
    for each in happened:
        told[each.trajectory_id].append(each)
    by_place: dict[tuple[str, str], list[Moment]] = defaultdict(list)
    for each in moments:
        by_place[each.place].append(each)
    found: list[dict[str, Any]] = []
    for each in newest(attempts):
        own = sorted(by_place[each.tree, each.slot], key=lambda moment: moment.at)
        state = states.get(each.id, "")
        goes_on = each.status == RUNNING and state != "dead"
        end = now if goes_on else max([each.moved, *(moment.at for moment in own)])
        found.append(_lane(each, own, told[each.id], end) | {"state": state})
    begin = min((lane["begin"] for lane in found), default=now)
    end = max((lane["end"] for lane in found), default=now)
    apart = (end - begin) / (2 * MOST_TURNS)
    for lane in found:
        lane["count"] = len(lane["turns"])
        lane["turns"] = _thinned(lane["turns"], apart)
    return {"begin": begin, "end": end, "of": len(attempts), "lanes": found}


def newest(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Those attempts of a run that get a lane, in the order they began."""
    chosen = sorted(attempts, key=lambda each: -each.moved)[:MOST_LANES]
    return sorted(chosen, key=lambda each: (each.started, each.task, each.slot))


def moments(lake: Lake, run: str, attempts: Sequence[Attempt]) -> list[Moment]:
    """The turns and words of some attempts of a run, read from a few columns of its nodes.

    Raises:
        StoreError: the lake cannot be read.
    """
    trees = sorted({each.tree for each in attempts})
    if not trees:
        return []
    query = (
        "select tree_id, slot, started, id, author = 'person' and role <> 'assistant' as said, "
        f"substr(text, 1, 120) as text from nodes where run_id = {literal(run)} and slot <> '' "
        f"and author in ('policy', 'person') and tree_id in ({', '.join(map(literal, trees))})"
    )
    return [
        Moment((each["tree_id"], each["slot"]), each["started"], each["id"], each["said"], each["text"] or "")
        for each in lake.sql(query).to_pylist()
        if each["started"]
    ]


def _lane(attempt: Attempt, own: Sequence[Moment], told: Sequence[Event], end: float) -> dict[str, Any]:
    words = [{"at": each.at, "node": each.node, "text": each.text} for each in own if each.person]
    # What was said to an agent is a node of its walk; an order leaves no node, and a wait tells a pause already.
    said = [each for each in told if each.kind == "heard" and each.text not in ("say", *_ORDERS)]
    words += [{"at": each.at, "node": each.node_id, "text": f"{each.text} by {each.by}"} for each in said]
    waited = [
        {name: each[name] for name in ("kind", "at", "seconds", "node", "text")}
        for each in waits(attempt.id, told, end)
    ]
    starts = [attempt.started or end, *(each.at for each in own if each.at)]
    return {
        "id": attempt.id,
        "task": attempt.task,
        "slot": attempt.slot,
        "status": attempt.status,
        "score": attempt.score,
        "success": attempt.success,
        "failure": attempt.failure,
        "begin": min(starts),
        "end": end,
        "turns": [{"at": each.at, "node": each.node} for each in own if not each.person],
        "waits": waited,
        "words": sorted(words, key=lambda each: each["at"]),
    }


def _thinned(turns: Sequence[dict[str, Any]], apart: float) -> list[dict[str, Any]]:
    if len(turns) <= MOST_TURNS:
        return list(turns)
    kept: list[dict[str, Any]] = []
    for each in turns:
        if not kept or each["at"] - kept[-1]["at"] >= apart:
            kept.append(each)
    return kept
