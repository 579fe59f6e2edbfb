"""OpenHands: the history of a run: events of its SDK (`kind`), or of the releases before it (`action`, `observation`).

    events ─▶ the actions that one reply holds are one turn, each observation answers its call ─▶ one walk

A row of `output.jsonl` has the history and what came of it, an exported conversation is the list of events alone.
State changes, recalls and condensations are no messages: they are counted. Read only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, cast

from silva.tree.formats.bundle import Bundle
from silva.tree.formats.calls import failed
from silva.tree.formats.dialogue import Utterance, called, grow_dialogue, objects
from silva.tree.formats.images import Loader
from silva.tree.formats.twigs import Ending
from silva.tree.formats.values import Row, documents
from silva.tree.message import Json
from silva.tree.node import Author, Usage
from silva.tree.outcome import Boundary, Outcome, Status

KEPT = "openhands"


def recognise(_sample: bytes, value: Any) -> bool:
    """Whether the file's first value is a row with a history of events, or such events."""
    if isinstance(value, dict):
        row = cast(Json, value)
        value = row.get("history", [row])
    events = objects(value)
    return bool(events) and all(_is_event(event) for event in events[:3])


def _is_event(event: Json) -> bool:
    kind: Any = event.get("kind")
    told = isinstance(kind, str) and kind.endswith(("Event", "Observation", "Action", "Condensation"))
    return "source" in event and (told or "action" in event or "observation" in event)


def read(
    lines: Iterable[str | bytes], name: str = "output.jsonl", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle]:
    """One bundle for each row with a history; events that stand alone are one history together.

    Args:
        lines: the file's lines.
        name: the file as errors name it.
        run: the run to read into.
        load: gives the bytes of images by their path.

    Raises:
        FormatError: with the line and the field.
    """
    loose: list[Json] = []
    for line, value in documents(lines, name):
        row = Row(cast(Json, value) if isinstance(value, dict) else {}, name, line)
        if "history" not in row:
            if not _is_event(row.value):
                raise row.error("history", "required field is missing, and it is no event either")
            loose.append(row.value)
            continue
        yield _bundle(row, row.rows("history"), run, load)
    if loose:
        whole = Row({}, name, 1)
        yield _bundle(whole, [Row(event, name, 0, f"[{place}]") for place, event in enumerate(loose)], run, load)


def _bundle(row: Row, events: list[Row], run: str, load: Loader | None) -> Bundle:
    others: Counter[str] = Counter()
    said: list[Utterance] = []
    replies: dict[str, int] = {}
    for event in events:
        made = _new(event) if "kind" in event else _old(event)
        if made is None:
            others[event.text("kind") or event.text("action") or event.text("observation") or "event"] += 1
            continue
        reply, utterance = made
        if reply and reply in replies:  # calls that one reply made at once
            before = said[replies[reply]]
            calls = [*objects(before.message.get("tool_calls")), *objects(utterance.message.get("tool_calls"))]
            said[replies[reply]] = before._replace(message={**before.message, "tool_calls": calls})
            continue
        if reply:
            replies[reply] = len(said)
        said.append(utterance)
    metrics = row.row("metrics") if isinstance(row.value.get("metrics"), dict) else row.inside("metrics", {})
    tokens = metrics.row("accumulated_token_usage")
    usage = Usage(
        prompt_tokens=tokens.whole("prompt_tokens"),
        completion_tokens=tokens.whole("completion_tokens"),
        cached_tokens=tokens.whole("cache_read_tokens"),
        usd=metrics.number("accumulated_cost") or 0.0,
    )
    kept = row.rest("history")
    if others:
        kept["other_events"] = dict(others)
    error = row.text("error") if isinstance(row.value.get("error"), str) else ""
    outcome = failed(Boundary.AGENT, error) if error else Outcome(status=Status.COMPLETED)
    ending = Ending(agent="openhands", outcome=outcome, usage=usage, attributes={KEPT: kept})
    return grow_dialogue(said, ending, row, KEPT, run, load, str(row.value.get("instance_id") or ""))


def _new(event: Row) -> tuple[str, Utterance] | None:
    """An event of the SDK, with the id of the reply it is of."""
    kind, at = event.text("kind"), event.moment("timestamp")
    kept = event.rest(
        "kind", "timestamp", "llm_message", "thought", "tool_call", "observation", "system_prompt", "action"
    )
    if kind == "SystemPromptEvent":
        prompt = event.row("system_prompt").value
        return "", Utterance({"role": "system", "content": prompt.get("text", "")}, started=at)
    if kind == "MessageEvent":
        message = event.row("llm_message").value
        author = Author.PERSON if event.text("source") == "user" else None
        return "", Utterance({**message, "role": message.get("role", "user")}, started=at, author=author, kept=kept)
    if kind == "ActionEvent":
        own = event.text("tool_call_id") or event.text("id")
        call = (
            event.row("tool_call") if isinstance(event.value.get("tool_call"), dict) else event.inside("tool_call", {})
        )
        given: Any = call.row("function").value.get("arguments") if "function" in call else call.value.get("arguments")
        arguments = given if given is not None else event.value.get("action")
        message: Json = {"role": "assistant", "content": event.value.get("thought") or ""}
        message["reasoning_content"] = event.text("reasoning_content") or None
        message["tool_calls"] = [called(own, event.text("tool_name") or "action", arguments)]
        return event.text("llm_response_id"), Utterance(message, started=at, kept=kept)
    if kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        content: Any = event.row("observation").value.get("content") if kind == "ObservationEvent" else None
        told = content if content is not None else event.value.get("error") or event.value.get("rejection_reason") or ""
        return "", Utterance(
            {"role": "tool", "tool_call_id": event.text("tool_call_id") or event.text("action_id"), "content": told},
            started=at,
            kept=kept,
        )
    return None


def _old(event: Row) -> tuple[str, Utterance] | None:
    """An event of the releases before the SDK."""
    at, meta = event.moment("timestamp"), event.row("tool_call_metadata")
    own = meta.text("tool_call_id") or str(event.value.get("cause") or event.value.get("id") or "")
    reply = str(meta.row("model_response").value.get("id") or "")
    kept = event.rest("timestamp", "tool_call_metadata", "content", "args", "message")
    if "observation" in event:
        if event.text("observation") in ("agent_state_changed", "null", "recall"):
            return None
        return "", Utterance(
            {"role": "tool", "tool_call_id": own, "content": event.text("content")}, started=at, kept=kept
        )
    action, args = event.text("action"), event.row("args")
    if action in ("", "null", "change_agent_state", "recall", "condensation"):
        return None
    if action in ("message", "system"):
        role = "system" if action == "system" else "user" if event.text("source") == "user" else "assistant"
        author = Author.PERSON if role == "user" else None
        return "", Utterance({"role": role, "content": args.text("content")}, started=at, author=author, kept=kept)
    name = meta.text("function_name") or action
    arguments = args.rest("thought")
    message = {"role": "assistant", "content": args.text("thought"), "tool_calls": [called(own, name, arguments)]}
    return reply, Utterance(message, started=at, kept=kept)
