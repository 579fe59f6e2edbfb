"""LangSmith: runs as its SDK lists and exports them, an object each. Read only.

    runs ─▶ by trace ─▶ `llm` runs are the calls, `tool` runs the answers, others are counted ─▶ fold ─▶ Bundle

Messages come as LangChain serialises them (`{"lc": 1, "id": [… "HumanMessage"], "kwargs": …}`, or `type` and `data`) or
as OpenAI has them, in Chat Completions, Completions and Responses. A model run that gave no reply is counted. A trace
without a readable model call is read from its outermost run's own messages. Tags, metadata, feedback and errors are
kept under `attributes["langsmith"]`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from silva.tree.formats.blocks import Reading, Said
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.calls import Answer, Call, ended, fold
from silva.tree.formats.chat import read_tool
from silva.tree.formats.draft import Origin
from silva.tree.formats.images import Loader
from silva.tree.formats.responses import is_items, messages
from silva.tree.formats.twigs import Branches, Ending
from silva.tree.formats.values import Row, rows
from silva.tree.message import Json, Message, TextPart, Tool
from silva.tree.node import Usage
from silva.tree.run import Run

KEPT = "langsmith"
_KINDS = ("llm", "chain", "tool", "retriever", "embedding", "prompt", "parser")
_USAGE = ("usage_metadata", "token_usage", "usage")


def recognise(_sample: bytes, value: Any) -> bool:
    """Whether the file's first value is a run."""
    row = cast(Json, value) if isinstance(value, dict) else {}
    return row.get("run_type") in _KINDS and bool({"trace_id", "dotted_order", "parent_run_id"} & set(row))


def read(
    lines: Iterable[str | bytes], name: str = "runs.jsonl", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle]:
    """One bundle for each trace.

    Args:
        lines: the file's lines, newlines kept.
        name: the file as errors name it.
        run: the run to read into.
        load: gives the bytes of images by their path.

    Raises:
        FormatError: with the line and the field.
    """
    groups: dict[str, list[Row]] = {}
    known: set[str] = set()
    for row in rows(lines, name):
        if "run_type" not in row:
            raise row.error("run_type", "required field is missing")
        own = row.text("id")
        if own in known:  # listed twice
            continue
        known |= {own} if own else set()
        groups.setdefault(row.text("trace_id") or row.text("id"), []).append(row)
    for trace, group in groups.items():
        group.sort(key=lambda row: (row.text("dotted_order"), row.moment("start_time")))
        yield _Trace(name, load).bundle(trace, group, Origin(run=Run(id=run)))


class _Trace:
    def __init__(self, name: str, load: Loader | None) -> None:
        self._name = name
        self._branches = Branches()
        self._reading = Reading(load, self._branches.blobs)
        self._replies: dict[str, list[Said]] = {}

    def bundle(self, trace: str, found: list[Row], origin: Origin) -> Bundle:
        calls: list[Call] = []
        answers: list[Answer] = []
        others: Counter[str] = Counter()
        root = next((row for row in found if not row.text("parent_run_id")), found[0])
        silent, last, broke = 0, None, ""
        for row in found:
            kind = row.text("run_type")
            call = self._call(row) if kind == "llm" else None
            if kind == "llm":
                silent += call is None or not call.said
                last, broke = call, row.text("error")
            answer = self._answer(row) if kind == "tool" else None
            if call is not None:
                calls.append(call)
            elif answer is not None:
                answers.append(answer)
            else:
                others[kind] += 1
        if not calls:
            whole = self._call(root)
            calls += [] if whole is None else [whole]
        others["tool"] += fold(self._branches, KEPT, calls, answers)
        counted = {kind: count for kind, count in others.items() if count}
        kept: Json = {"trace": trace, **self._kept(root)}
        if counted:
            kept["other_runs"] = counted
        if silent:
            kept["without_reply"] = silent
        own = root.text("run_type") != "llm"
        tell = ended(self._branches, root.text("error") if own else "", last, broke)

        def ending(leaf: int) -> Ending:
            return Ending(
                agent=root.text("name") if own else "",
                outcome=tell(leaf),
                started=root.moment("start_time"),
                finished=root.moment("end_time"),
                attributes={KEPT: kept},
            )

        return self._branches.grow(origin, ending, self._name, root.line, trace)

    def _call(self, row: Row) -> Call | None:
        inputs, outputs = row.row("inputs"), row.row("outputs")
        sent = self._sent(inputs)
        said, reasons = self._said(outputs)
        if "id" in outputs and isinstance(outputs.value["id"], str):
            self._replies[outputs.value["id"]] = [*(each for each in sent if each.message.role != "system"), *said]
        if not sent and not said:
            return None
        extra = row.row("extra")
        asked = extra.row("invocation_params")
        metadata = extra.row("metadata")
        model = asked.text("model") or asked.text("model_name") or metadata.text("ls_model_name")
        model = model or _generated(outputs).row("response_metadata").text("model_name")
        before: Any = inputs.value.get("previous_response_id")
        return Call(
            sent=tuple(sent),
            said=tuple(said),
            tools=self._tools(inputs if "tools" in inputs else asked),
            model=model or inputs.text("model"),
            usage=_usage(row, outputs),
            finish_reasons=tuple(reasons),
            started=row.moment("start_time"),
            attributes={**self._kept(row), **({"previous_response": before} if before else {})},
        )

    def _sent(self, inputs: Row) -> list[Said]:
        if isinstance(inputs.value.get("input"), str | list) and not inputs.value.get("messages"):
            # What a response continues was sent to the provider before, its instructions excepted.
            before: Any = inputs.value.get("previous_response_id")
            known = self._replies.get(before, []) if isinstance(before, str) else []
            return [*self._instructions(inputs), *known, *self._asked(inputs)]
        return self._asked(inputs)

    def _instructions(self, inputs: Row) -> list[Said]:
        words: Any = inputs.value.get("instructions")
        if not isinstance(words, str) or not words:
            return []
        return [Said(Message(role="system", parts=(TextPart(text=words),)), {})]

    def _asked(self, inputs: Row) -> list[Said]:
        if is_items(inputs.value.get("input")) and not inputs.value.get("messages"):
            return messages(self._reading, inputs.rows("input"))
        for key in ("messages", "input"):
            value: Any = inputs.value.get(key)
            if isinstance(value, list) and value:
                items = cast(list[Any], value)
                if isinstance(items[0], list):  # LangChain sends a batch, of one
                    inputs, key = inputs.inside("", {key: items[0]}), key
                return [said for message in inputs.rows(key) for said in self._message(message)]
        words = inputs.value.get("prompt") or inputs.value.get("prompts") or inputs.value.get("input")
        if isinstance(words, list):
            words = "\n".join(str(each) for each in cast(list[Any], words))
        if isinstance(words, str):
            return [Said(Message(role="user", parts=(TextPart(text=words),)), {})]
        return []

    def _said(self, outputs: Row) -> tuple[list[Said], list[str]]:
        if "choices" in outputs:
            found: list[Said] = []
            reasons: list[str] = []
            for choice in outputs.rows("choices"):
                found += self._message(choice.row("message")) if "message" in choice else self._words(choice, "text")
                reasons.append(choice.text("finish_reason"))
            return found, reasons
        if is_items(outputs.value.get("output")):
            return messages(self._reading, outputs.rows("output")), []
        generations: Any = outputs.value.get("generations")
        if isinstance(generations, list) and generations:
            items = cast(list[Any], generations)
            batch = outputs.inside("", {"generations": items[0]}) if isinstance(items[0], list) else outputs
            found, reasons = [], []
            for made in batch.rows("generations"):
                found += self._message(made.row("message")) if "message" in made else self._words(made, "text")
                told = _generated(batch).row("response_metadata")
                reasons.append(made.row("generation_info").text("finish_reason") or told.text("finish_reason"))
            return found, reasons
        if isinstance(outputs.value.get("messages"), list):
            return [said for row in outputs.rows("messages")[-1:] for said in self._message(row)], []
        inner = outputs.row("message") if isinstance(outputs.value.get("message"), dict) else outputs
        inner = inner.row("output") if isinstance(inner.value.get("output"), dict) else inner
        if {"role", "type", "lc"} & set(inner.value):
            return self._message(inner), []
        return self._words(outputs, "output"), []

    def _words(self, row: Row, key: str) -> list[Said]:
        words: Any = row.value.get(key)
        if not isinstance(words, str) or not words:
            return []
        return [Said(Message(role="assistant", parts=(TextPart(text=words),)), {})]

    def _message(self, row: Row) -> list[Said]:
        """A message as LangChain serialises it, or as OpenAI has it."""
        if "kwargs" in row:
            names = row.items("id")
            kind = str(names[-1]) if names else ""
            row, said = row.row("kwargs"), kind.removesuffix("Chunk").removesuffix("Message").lower()
        elif "data" in row and "type" in row:
            row, said = row.row("data"), row.text("type")
        else:
            said = row.text("role") or row.text("type")
        value = {key: item for key, item in row.value.items() if item not in ([], {}, "", None)}
        given: Any = value.pop("additional_kwargs", None)
        if isinstance(given, dict) and not {"tool_calls", "function_call"} & set(value):
            value |= {key: item for key, item in cast(Json, given).items() if key in ("tool_calls", "function_call")}
        content: Any = value.get("content")
        if isinstance(content, list) and value.get("tool_calls"):
            # The same calls stand in Anthropic's blocks, too.
            calls = ("tool_use", "tool_call", "function_call", "input_json_delta")
            items = cast(list[Any], content)
            value["content"] = [each for each in items if _field(each, "type") not in calls]
        value["role"] = "user" if said in ("human", "chat") else said or "assistant"
        for key in ("type", "invalid_tool_calls", "response_metadata", "usage_metadata", "id", "status", "example"):
            value.pop(key, None)
        return self._reading.chat(Row(value, row.name, row.line, row.field))

    def _answer(self, row: Row) -> Answer | None:
        outputs = row.row("outputs")
        inner = outputs.row("output") if isinstance(outputs.value.get("output"), dict) else outputs
        extra = row.row("extra")
        call_id = ""
        said: list[Said] = []
        if "kwargs" in inner or "tool_call_id" in inner:
            said = (
                self._message(inner)
                if "kwargs" in inner
                else self._message(inner.inside("", {**inner.value, "role": "tool", "type": "tool"}))
            )
            call_id = (said[0].message.tool_call_id or "") if said else ""
        call_id = call_id or extra.text("tool_call_id") or extra.row("metadata").text("tool_call_id")
        if not call_id:
            return None
        if not said:
            value: Any = outputs.value.get("output", outputs.value or None)
            words = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
            parts = (TextPart(text=words),) if words else ()
            said = [Said(Message(role="tool", parts=parts, tool_call_id=call_id), {})]
        started = row.moment("start_time")
        seconds = max(0.0, row.moment("end_time") - started) if "end_time" in row else 0.0
        return Answer(said=said[0], started=started, seconds=seconds, attributes=self._kept(row))

    def _tools(self, row: Row) -> tuple[Tool, ...] | None:
        if "tools" not in row:
            return None
        found: list[Tool] = []
        for entry in row.rows("tools"):
            value = dict(entry.value)
            if "function" not in value and "input_schema" in value:
                value["parameters"] = value.pop("input_schema")
            if "function" not in value and "name" not in value and value.get("type"):
                value["name"] = value["type"]  # a tool of the provider's own: a search, an interpreter
            try:
                found.append(read_tool(value))
            except msgspec.ValidationError as error:
                raise entry.error("", f"is no tool definition ({error})") from error
        return tuple(found) or None

    def _kept(self, row: Row) -> Json:
        kept = {
            "run": row.text("id") or None,
            "name": row.text("name") or None,
            "error": row.text("error") or None,
            "tags": row.items("tags") or None,
            "metadata": row.row("extra").row("metadata").value or None,
            "feedback": row.row("feedback_stats").value or None,
        }
        return {key: value for key, value in kept.items() if value is not None}


def _usage(row: Row, outputs: Row) -> Usage:
    """What a run cost, wherever this version of the SDK puts it."""
    candidates = [outputs, outputs.row("llm_output"), row.row("extra").row("metadata"), _generated(outputs)]
    found = [place.row(key) for place in candidates for key in _USAGE if isinstance(place.value.get(key), dict)]
    place = found[0] if found else outputs.inside("", {})
    started = row.moment("start_time")
    return Usage(
        prompt_tokens=row.whole("prompt_tokens") or place.whole("input_tokens") or place.whole("prompt_tokens"),
        completion_tokens=row.whole("completion_tokens")
        or place.whole("output_tokens")
        or place.whole("completion_tokens"),
        cached_tokens=place.row("input_token_details").whole("cache_read")
        or place.row("prompt_tokens_details").whole("cached_tokens")
        or place.row("input_tokens_details").whole("cached_tokens"),
        usd=row.number("total_cost") or 0.0,
        model_seconds=max(0.0, row.moment("end_time") - started) if "end_time" in row else 0.0,
    )


def _generated(outputs: Row) -> Row:
    """The fields of the first message that a LangChain run generated."""
    value: Any = outputs.value.get("generations")
    while isinstance(value, list) and value:
        value = cast(list[Any], value)[0]
    made = outputs.inside("generations", value).row("message")
    return made.row("kwargs") if "kwargs" in made else made


def _field(value: Any, key: str) -> Any:
    return cast(Json, value).get(key) if isinstance(value, dict) else None
