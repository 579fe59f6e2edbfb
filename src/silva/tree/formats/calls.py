"""Calls: a trace of model calls, each of which repeats the conversation so far, folded back into a tree.

    call 1:  system, user ─▶ assistant                        system ── user ── assistant ── tool ── assistant
    call 2:  system, user, assistant, tool ─▶ assistant   ─▶                        └── tool' ── assistant
    call 3:  system, user, assistant, tool' ─▶ assistant

A call continues the walk whose words its own prompt begins with; where it says something else, it is a branch. Calls
come in the order of their start. Where calls carry token ids, a node keeps what it adds, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from silva.tree.formats.blocks import Said
from silva.tree.formats.draft import Turn
from silva.tree.formats.twigs import ROOT, Branches
from silva.tree.message import Json, Record, Tool
from silva.tree.node import NO_USAGE, Author, Tokens, Usage
from silva.tree.outcome import Boundary, Failure, Outcome, Status


class Call(Record, frozen=True, kw_only=True):
    """One call of a model: what it was sent, what it said (several where it was asked for several), what that cost.

    `prompt_ids` and `sampled_ids` are token ids where the trace has them.
    """

    sent: tuple[Said, ...]
    said: tuple[Said, ...]
    tools: tuple[Tool, ...] | None = None
    model: str = ""
    usage: Usage = NO_USAGE
    finish_reasons: tuple[str, ...] = ()
    started: float = 0.0
    prompt_ids: tuple[int, ...] | None = None
    sampled_ids: tuple[int, ...] | None = None
    attributes: Json = msgspec.field(default_factory=dict[str, Any])


class Answer(Record, frozen=True, kw_only=True):
    """What a tool gave back, by a record of its own. It is a turn where no later call repeats it."""

    said: Said
    started: float = 0.0
    seconds: float = 0.0
    attributes: Json = msgspec.field(default_factory=dict[str, Any])


def failed(boundary: Boundary, said: str) -> Outcome:
    """The outcome of a trace that broke, with the first line of what it said."""
    lines = said.strip().splitlines() or ["error"]
    failure = Failure(boundary=boundary, code=f"{boundary}.error", message=lines[0][:300])
    return Outcome(status=Status.FAILED, failure=failure)


def ended(branches: Branches, whole: str, last: Call | None, broke: str) -> Callable[[int], Outcome]:
    """How the walk to each leaf ended.

    Args:
        branches: the tree, when all calls are on it.
        whole: the error of the trace as a whole ("": it has none), which is that of every walk.
        last: the model call that was begun last (None: it told of no message, so its error is that of every walk).
        broke: the error of that call: earlier ones were tried again, or the agent went on without them.
    """
    if whole:
        outcome = failed(Boundary.AGENT, whole)
        return lambda _leaf: outcome
    if not broke:
        return lambda _leaf: Outcome(status=Status.COMPLETED)
    outcome = failed(Boundary.MODEL, broke)
    place = ROOT
    for said in (*last.sent, *last.said[:1]) if last is not None else ():
        known = branches.same(place, said.message)
        place = place if known is None else known
    return lambda leaf: outcome if place == ROOT or place in branches.walk(leaf) else Outcome(status=Status.COMPLETED)


def fold(branches: Branches, key: str, calls: list[Call], answers: list[Answer]) -> int:
    """Put the calls of one trace on the tree; what is kept of each message stands under `attributes[key]`.

    Returns:
        how many answers no call had asked for: they have no place on the tree.
    """
    asked: dict[str, list[int]] = {}
    for call in sorted(calls, key=lambda call: call.started):
        place = _sent(branches, key, call)
        for number, said in enumerate(call.said):
            reason = call.finish_reasons[number] if number < len(call.finish_reasons) else ""
            own = branches.add(place, _turn(branches, key, call, said, place, number), finish_reason=reason)
            for made in said.message.tool_calls:
                asked.setdefault(made.id, []).append(own)
    taken: set[int] = set()
    ordered = sorted(answers, key=lambda answer: answer.started)
    return [_answer(branches, key, answer, asked, taken) for answer in ordered].count(False)


def _sent(branches: Branches, key: str, call: Call) -> int:
    place = ROOT
    for said in call.sent:
        known = branches.same(place, said.message)
        if known is None:
            attributes: Json = {key: {"message": said.kept}} if said.kept else {}
            known = branches.add(place, Turn(message=said.message, attributes=attributes))
        place = known
    tools = call.tools
    if tools is not None and place != ROOT:
        path = branches.walk(place)
        in_force = next((branches.twigs[at].turn.tools for at in reversed(path) if branches.twigs[at].turn.tools), None)
        if in_force is None and not any(branches.twigs[at].author is Author.POLICY for at in path):
            branches.replace(path[0], tools=tools)
        elif in_force != tools:
            branches.replace(place, tools=tools)
    return place


def _turn(branches: Branches, key: str, call: Call, said: Said, place: int, number: int) -> Turn:
    kept: Json = dict(call.attributes)
    if said.kept:
        kept["message"] = said.kept
    attributes: Json = {key: kept} if kept else {}
    tokens = None
    if call.sampled_ids is not None and number == 0:
        glue: tuple[int, ...] = ()
        if call.prompt_ids is None:
            attributes["tokens"] = "completion"
        else:
            seen = _seen(branches, place)
            continues = seen is not None and call.prompt_ids[: len(seen)] == seen
            glue = call.prompt_ids[len(seen) :] if seen is not None and continues else call.prompt_ids
            if not continues:
                attributes["tokens"] = "restart"
        tokens = Tokens(ids=(*glue, *call.sampled_ids), sampled=len(call.sampled_ids))
    return Turn(
        message=said.message,
        tokens=tokens,
        model=call.model,
        # Several answers of one call were billed once.
        usage=call.usage if number == 0 else NO_USAGE,
        started=call.started,
        attributes=attributes,
    )


def _seen(branches: Branches, place: int) -> tuple[int, ...] | None:
    """The token ids along the walk, None where a sampled turn lacks them."""
    ids: list[int] = []
    for at in branches.walk(place):
        twig = branches.twigs[at]
        tokens = twig.turn.tokens
        if tokens is None and twig.author is Author.POLICY:
            return None
        if twig.turn.attributes.get("tokens") == "restart":
            ids = []
        if tokens is not None:
            ids += tokens.ids
    return tuple(ids)


def _answer(branches: Branches, key: str, answer: Answer, asked: dict[str, list[int]], taken: set[int]) -> bool:
    call_id = answer.said.message.tool_call_id
    callers = asked.get(call_id, []) if call_id is not None else []
    if call_id is None or not callers:
        return False
    usage = Usage(env_seconds=answer.seconds)
    known = [_answered(branches, caller, call_id) for caller in callers]
    told = [place for place in known if place is not None and place not in taken]
    # Where an id comes again, an answer belongs to the call whose answer says the same, else to one that has none yet.
    words = answer.said.message.text
    same = next((place for place in told if branches.twigs[place].turn.message.text == words), None)
    end = next((caller for caller, place in zip(callers, known, strict=True) if place is None), None)
    if same is None and end is not None:
        while tail := [at for at in branches.children(end) if branches.twigs[at].turn.message.role == "tool"]:
            end = tail[0]
        kept = {**answer.attributes, **({"message": answer.said.kept} if answer.said.kept else {})}
        attributes = {key: kept} if kept else {}
        turn = Turn(message=answer.said.message, usage=usage, started=answer.started, attributes=attributes)
        taken.add(branches.add(end, turn))
    elif same is not None or told:
        place = told[0] if same is None else same
        taken.add(place)
        turn = branches.twigs[place].turn
        given: Any = turn.attributes.get(key, {})
        kept = {**given, **answer.attributes}
        attributes = {**turn.attributes, **({key: kept} if kept else {})}
        branches.replace(place, usage=usage, started=turn.started or answer.started, attributes=attributes)
    return True


def _answered(branches: Branches, caller: int, call_id: str) -> int | None:
    """The place of what answers a call, among the answers that follow its turn."""
    below = [caller]
    while below:
        for child in branches.children(below.pop()):
            message = branches.twigs[child].turn.message
            if message.role == "tool" and message.tool_call_id == call_id:
                return child
            if message.role == "tool":
                below.append(child)
    return None
