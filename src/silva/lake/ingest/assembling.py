"""From what arrived of a session to records: pure, so that a process of its own can do it.

    arrivals (any order, some twice) ─▶ the last of each span ─▶ the readers of `silva.tree.formats` ─▶ Bundle
      ─▶ compared with what was made before: the same nodes and more: added · anything else: another attempt

A trace that late spans change is another *attempt* at its place in the group: the earlier trajectories stay as data and
are marked superseded, as those of a retried rollout are. What only goes on (a conversation's next turn) is added to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from silva.errors import SilvaError
from silva.lake.entry import Arrival
from silva.lake.frames import encoded
from silva.lake.ingest.otlp import document
from silva.tree import Outcome, Record, Trajectory, encode
from silva.tree.formats import Bundle, attempted, find, merged, salvage
from silva.tree.formats.spans import OPENINFERENCE, convention

ASSEMBLED, ASSEMBLY = "assembled", "assembly"
_HEX = 16

Stage = Callable[[Bundle], Bundle]
"""What is done to a session's records before they are kept."""


class Session(Record, frozen=True, kw_only=True):
    """What arrived of a session.

    Attributes:
        key: the conversation it names, else its trace.
        arrivals: all there is of it.
        before: the notes of what was made of it before.
        at: Unix seconds now.
    """

    key: str
    arrivals: tuple[Arrival, ...]
    before: tuple[Arrival, ...] = ()
    at: float = 0.0


class Note(Record, frozen=True, kw_only=True):
    """What was made of a session: how many arrivals it was made of, its attempt, its trajectories (encoded) and nodes
    (id to digest of content), and what could not be read."""

    key: str
    spans: int
    attempt: int = 0
    trajectories: tuple[bytes, ...] = ()
    nodes: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    troubles: tuple[str, ...] = ()


class Made(Record, frozen=True, kw_only=True):
    """What is to be written of a session: records as the journal takes them, the note last; images by their hash."""

    key: str
    run: str
    spans: int
    records: tuple[bytes, ...]
    blobs: dict[str, bytes] = msgspec.field(default_factory=dict[str, bytes])
    trajectories: int = 0
    amended: bool = False
    troubles: tuple[str, ...] = ()


def assemble(session: Session, stages: Iterable[Stage] = ()) -> Made:
    """The records of a session."""
    run = min(session.arrivals, key=lambda each: (each.started or each.at, each.id)).run
    count = len({each.id for each in session.arrivals})
    notes = _notes(session)
    last = notes[-1] if notes else None
    if last is not None and count < last.spans:
        why = (
            f"{count} of at least {last.spans} arrivals are left: what it was made of was let go, and it stays as it is"
        )
        return Made(key=session.key, run=run, spans=count, records=(), troubles=(why,))
    arrivals = _latest(session.arrivals)
    bundle, troubles = _read(arrivals, run)
    if bundle is not None:
        bundle = _scored(bundle, arrivals)
        for stage in stages:
            bundle = stage(bundle)
    fresh, attempt, nodes, gone = _compared(bundle, last, notes)
    records = [encode(each) for each in fresh.records()] if fresh is not None else []
    records += [encode(msgspec.structs.replace(each, superseded=True)) for each in gone]
    made = fresh.trajectories if fresh is not None else ()
    note = Note(
        key=session.key,
        spans=count,
        attempt=attempt,
        trajectories=tuple(encode(each) for each in made),
        nodes=nodes,
        troubles=tuple(troubles[:20]),
    )
    return Made(
        key=session.key,
        run=run,
        spans=count,
        records=(*records, encoded(_noted(note, run, session.at))),
        blobs=fresh.blobs if fresh is not None else {},
        trajectories=len(made),
        amended=bool(gone),
        troubles=tuple(troubles[:20]),
    )


def failed(session: Session, why: str) -> Made:
    """The note of a session of which nothing new can be made: tried again when more of it comes."""
    run, notes = session.arrivals[0].run, _notes(session)
    count = len({each.id for each in session.arrivals})
    last = notes[-1] if notes else Note(key=session.key, spans=count)
    note = msgspec.structs.replace(last, spans=count, troubles=(why,))
    records = (encoded(_noted(note, run, session.at)),)
    return Made(key=session.key, run=run, spans=note.spans, records=records, troubles=(why,))


def _notes(session: Session) -> list[Note]:
    """What was made of it before, the last one last."""
    before = sorted(session.before, key=lambda each: each.at)
    return [msgspec.msgpack.decode(each.data, type=Note) for each in before]


def _noted(note: Note, run: str, at: float) -> Arrival:
    data = msgspec.msgpack.encode(note)
    own = f"{ASSEMBLED}:{sha256(data + str(at).encode()).hexdigest()[:40]}"
    return Arrival(
        id=own,
        kind=ASSEMBLED,
        form=ASSEMBLY,
        trace="",
        conversation=note.key,
        run=run,
        at=at,
        started=float(note.spans),
        size=len(data),
        data=data,
    )


def _latest(arrivals: Sequence[Arrival]) -> list[Arrival]:
    """Each span once: what was said of it last."""
    known: dict[tuple[str, str, str, str], Arrival] = {}
    for each in sorted(arrivals, key=lambda each: (each.at, each.id)):
        # Log records have no id of their own: each is one.
        known[each.kind, each.trace, each.span, each.id if each.kind == "log" else ""] = each
    return sorted(known.values(), key=lambda each: (each.started or each.at, each.trace, each.span))


def _read(arrivals: Sequence[Arrival], run: str) -> tuple[Bundle | None, list[str]]:
    """What the readers make of the arrivals; None where there is no message in them."""
    otlp = [_document(each) for each in arrivals if each.form.startswith("otlp")]
    items = [each.data for each in arrivals if each.form == "openai-agents"]
    bundles: list[Bundle] = []
    troubles: list[str] = []
    if otlp:
        said = convention(b"\n".join(otlp), json.loads(otlp[0]))
        bundles += _salvaged("phoenix" if said == OPENINFERENCE else "otel", otlp, run, troubles)
    if items:
        bundles += _salvaged("openai-agents", items, run, troubles)
    whole = merged(bundles)
    if not whole or not any(bundle.nodes for bundle in whole):
        return None, troubles
    bundle = whole[0]
    kept = tuple(each for each in bundle.trajectories if each.leaf_id is not None)
    return msgspec.structs.replace(bundle, trajectories=kept), troubles


def _document(arrival: Arrival) -> bytes:
    if arrival.form == "otlp-json":
        if arrival.started:
            return arrival.data
        found = document(arrival.form, arrival.data)
        for resource in found.get("resourceSpans", ()):
            for scope in resource.get("scopeSpans", ()):
                for span in scope.get("spans", ()):  # it says no time: it has that of its arrival
                    span["startTimeUnixNano"] = span["endTimeUnixNano"] = str(int(arrival.at * 1e9))
        return msgspec.json.encode(found)
    return msgspec.json.encode(document(arrival.form, arrival.data))


def _salvaged(form: str, lines: list[bytes], run: str, troubles: list[str]) -> list[Bundle]:
    try:
        found = salvage(find(form), b"\n".join(lines), form, run)
    except SilvaError as error:
        troubles.append(str(error))
        return []
    troubles += [note.said for note in found.notes]
    return found.bundles


def _scored(bundle: Bundle, arrivals: Sequence[Arrival]) -> Bundle:
    """With Langfuse's scores of the traces among the metrics of their trajectories."""
    scores = [msgspec.json.decode(each.data) for each in arrivals if each.form == "langfuse-score"]
    metrics: dict[str, float] = {
        str(each["name"]): float(each["value"]) for each in scores if isinstance(each.get("value"), int | float)
    }
    if not metrics:
        return bundle

    def marked(trajectory: Trajectory) -> Trajectory:
        outcome: Outcome = trajectory.outcome
        outcome = msgspec.structs.replace(outcome, metrics={**outcome.metrics, **metrics})
        return msgspec.structs.replace(trajectory, outcome=outcome)

    return msgspec.structs.replace(bundle, trajectories=tuple(map(marked, bundle.trajectories)))


def _compared(
    bundle: Bundle | None, last: Note | None, notes: Sequence[Note]
) -> tuple[Bundle | None, int, dict[str, str], list[Trajectory]]:
    """What is new of a bundle, its attempt, its nodes, and the earlier trajectories that no longer count."""
    attempt = 0 if last is None else last.attempt
    whole, nodes = _at(bundle, attempt)
    known = {} if last is None else last.nodes
    if any(nodes.get(node) != content for node, content in known.items()):
        attempt += 1
        whole, nodes = _at(bundle, attempt)
        known = {}
    earlier: dict[str, Trajectory] = {}
    for note in notes:
        for data in note.trajectories:
            found: Any = msgspec.msgpack.decode(data, type=tuple[int, Trajectory])[1]
            earlier[found.id] = found
    if whole is None:
        return None, attempt, nodes, list(earlier.values())
    now = {each.id for each in whole.trajectories}
    fresh = msgspec.structs.replace(
        whole,
        tasks=tuple(task.owned_by(whole.run.id) for task in whole.tasks),
        nodes=tuple(node for node in whole.nodes if node.id not in known),
    )
    return fresh, attempt, nodes, [each for name, each in earlier.items() if name not in now]


def _at(bundle: Bundle | None, attempt: int) -> tuple[Bundle | None, dict[str, str]]:
    if bundle is None:
        return None, {}
    whole = attempted(bundle, attempt)
    return whole, {node.id: sha256(encode(node)).hexdigest()[:_HEX] for node in whole.nodes}
