"""When what happened in an attempt: the model's time, the environment's, and people's.

nodes (started, usage) ┐
                       ├▶ spans, in order: model · environment · approval · pause · the rest is Silva's
events of guidance     ┘   and marks: a person's words, a snapshot, a summary, a reward
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from silva.console.attempt import brief
from silva.guide.event import Event
from silva.rollout.guided_nodes import takes_turn
from silva.tree import Author, Node

MOST_SPANS = 4_000
"""Spans of one attempt, the newest; of the others the sums are kept."""


def timeline(walk: Sequence[Node], attempt: str, happened: Iterable[Event], until: float) -> dict[str, Any]:
    """The timeline of an attempt.

    Args:
        walk: its nodes, root first.
        attempt: its id.
        happened: the events of its run.
        until: when it ended, or now (Unix seconds).

    Returns:
        `begin` and `end` (Unix seconds), `spans` (`kind`, `at`, `seconds`, `turn`, `node`, `text`), `marks` (`kind`,
        `at`, `turn`, `node`, `text`) and `sums`: seconds by kind, `other` being what none of them explains.
    """
    spans: list[dict[str, Any]] = []
    marks: list[dict[str, Any]] = []
    turn = 0
    own = [node for node in walk if node.slot and node.started]
    for node in own:
        acts = takes_turn(node)
        turn += acts
        usage, about = node.usage, {"turn": turn, "node": node.id, "text": brief(node, 120)}
        if usage.model_seconds:
            spans.append({"kind": "model", "at": node.started, "seconds": usage.model_seconds, **about})
        if usage.env_seconds:
            # An answer is written down once it is there: its time lies before it.
            began = node.started if acts else node.started - usage.env_seconds
            spans.append({"kind": "environment", "at": began, "seconds": usage.env_seconds, **about})
        for kind in _marks(node):
            marks.append({"kind": kind, "at": node.started, **about})
    spans += waits(attempt, happened, until)
    spans.sort(key=lambda each: each["at"])
    begin = min([node.started for node in own] + [each["at"] for each in spans], default=until)
    end = max([until] + [each["at"] + each["seconds"] for each in spans])
    sums: dict[str, float] = {}
    for each in spans:
        sums[each["kind"]] = sums.get(each["kind"], 0.0) + each["seconds"]
    sums["other"] = max(0.0, end - begin - sum(sums.values()))
    return {"begin": begin, "end": end, "spans": spans[-MOST_SPANS:], "marks": marks[-MOST_SPANS:], "sums": sums}


def _marks(node: Node) -> list[str]:
    found: list[str] = []
    if node.author is Author.PERSON:
        found.append("person")
    if node.author is Author.SUMMARISER:
        found.append("summary")
    if node.author is Author.ATTACKER or node.risks:
        found.append("risk")
    if node.snapshot_id:
        found.append("snapshot")
    if node.reward:
        found.append("reward")
    return found


def waits(attempt: str, happened: Iterable[Event], until: float) -> list[dict[str, Any]]:
    """When an attempt waited for people: spans of the kinds `approval` and `pause`, as in `timeline`; those that have
    not ended last until `until`."""
    found: list[dict[str, Any]] = []
    asked: dict[str, Event] = {}
    paused: Event | None = None

    def add(kind: str, event: Event, end: float, text: str) -> None:
        about = {"turn": event.turn, "node": event.node_id, "text": text}
        found.append({"kind": kind, "at": event.at, "seconds": max(0.0, end - event.at), **about})

    for each in happened:
        if each.trajectory_id != attempt:
            continue
        if each.kind == "waiting":
            asked.setdefault(each.node_id, each)
        elif each.kind == "decided" and each.node_id in asked:
            add("approval", asked.pop(each.node_id), each.at, f"{each.text} by {each.by}" if each.by else each.text)
        elif each.kind == "heard" and each.text == "pause":
            paused = paused or each
        elif each.kind == "heard" and each.text in ("resume", "stop") and paused is not None:
            add("pause", paused, each.at, f"{each.text} by {each.by}" if each.by else each.text)
            paused = None
    for each in asked.values():
        add("approval", each, until, "waits")
    if paused is not None:
        add("pause", paused, until, "paused")
    return found
