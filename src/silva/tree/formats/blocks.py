"""Blocks: the content of one message as the providers' own forms have it, read into parts, calls and answers.

    Anthropic  {"type": "tool_use", …}         ┐
    OpenAI     {"type": "input_text", …}       ├─▶ Content ─▶ Said … (a message each: answers of tools stand alone)
    OTel       {"type": "tool_call", …}        │
    LangChain  {"name": …, "args": …}          ┘

A block that Silva has no part for is a line of text in its place, and the original is kept beside the message.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from silva.tree.formats.chat import arguments_text
from silva.tree.formats.images import Loader, resolve
from silva.tree.formats.values import Row, kind
from silva.tree.message import ImagePart, Json, Message, Part, Role, TextPart, ThinkingPart, ToolCall

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "humanmessagechunk": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "aimessagechunk": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
_TEXT = ("text", "input_text", "output_text", "summary_text", "reasoning_text", "refusal")
_THINKING = ("thinking", "reasoning", "redacted_thinking", "reasoning_content")
_CALLS = ("tool_use", "tool_call", "server_tool_use", "function_call")
_ANSWERS = ("tool_result", "tool_call_response", "web_search_tool_result", "function_call_output")
_IMAGES = ("image", "image_url", "input_image", "blob", "uri", "file")
BLOCKS = frozenset((*_THINKING, *_CALLS, *_ANSWERS, *_TEXT[1:]))
"""Kinds of block that say more than text and pictures do."""


class Said(NamedTuple):
    """A message, and what the file says of it that Silva has no place for."""

    message: Message
    kept: Json


class _Answer(NamedTuple):
    call_id: str | None
    content: _Content
    failed: bool


class _Content:
    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.calls: list[ToolCall] = []
        self.answers: list[_Answer] = []
        self.kept: list[Json] = []


class Reading:
    """Reads messages; the bytes of images that came with them gather in `blobs`."""

    def __init__(self, load: Loader | None, blobs: dict[str, bytes]) -> None:
        self._load, self._blobs = load, blobs

    def role(self, row: Row, key: str = "role") -> Role:
        """The role.

        Raises:
            FormatError: an unknown one.
        """
        said = row.text(key)
        role = _ROLES.get(said.lower())
        if role is None:
            known = "system, user, assistant, tool"
            raise row.error(key, f"unknown role {said!r} (known: {known})" if said else "required field is missing")
        return role

    def chat(self, row: Row, key: str = "content") -> list[Said]:
        """A message of `role`, content under `key`, and `tool_calls`, in any of the providers' forms.

        Raises:
            FormatError: with line and field.
        """
        role = self.role(row)
        content = _Content()
        for name in ("reasoning_content", "reasoning", "thinking"):
            if isinstance(row.value.get(name), str) and row.value[name] and not content.parts:
                content.parts.append(ThinkingPart(text=row.value[name]))
        self._fill(content, row, key)
        for place, call in enumerate(row.rows("tool_calls")):
            content.calls.append(_call(call.row("tool_call") if "tool_call" in call else call, place))
        if "function_call" in row:
            content.calls.append(_call(row.row("function_call"), len(content.calls)))
        known = (key, "role", "tool_calls", "function_call", "tool_call_id", "name", "reasoning_content", "reasoning")
        kept = row.rest(*known, "thinking")
        return list(self._said(role, content, row.text("tool_call_id") or None, row.text("name") or None, kept))

    def said(self, role: Role, row: Row, key: str, call_id: str | None = None, name: str | None = None) -> list[Said]:
        """The messages of a content field whose role is known.

        Raises:
            FormatError: with line and field.
        """
        content = _Content()
        self._fill(content, row, key)
        return list(self._said(role, content, call_id, name, {}))

    def parts(self, row: Row, key: str) -> tuple[tuple[Part, ...], Json]:
        """The parts of a content field alone, and what is kept beside them.

        Raises:
            FormatError: with line and field.
        """
        content = _Content()
        self._fill(content, row, key)
        return tuple(content.parts), {"blocks": content.kept} if content.kept else {}

    def _fill(self, content: _Content, row: Row, key: str) -> None:
        value: Any = row.value.get(key)
        if value is None:
            return
        if isinstance(value, str):
            content.parts += [TextPart(text=value)] if value else []
            return
        if isinstance(value, dict):
            self._block(content, row.row(key))
            return
        if not isinstance(value, list):
            raise row.error(key, f"must be a text or a list of blocks, this is {kind(value)}")
        for place, item in enumerate(cast(list[Any], value)):
            if isinstance(item, str):
                content.parts.append(TextPart(text=item))
            elif isinstance(item, dict):
                self._block(content, Row(cast(Json, item), row.name, row.line, row.path(f"{key}[{place}]")))
            else:
                raise row.error(f"{key}[{place}]", f"must be an object, this is {kind(item)}")

    def _block(self, content: _Content, row: Row) -> None:
        said = row.text("type") or ("text" if "text" in row else "")
        if said in _TEXT:
            key = "text" if "text" in row else "refusal" if "refusal" in row else "content"
            content.parts.append(TextPart(text=row.text(key)))
        elif said in _THINKING:
            content.parts.append(_thinking(row))
        elif said in _CALLS:
            content.calls.append(_call(row, len(content.calls)))
        elif said in _ANSWERS:
            inner = _Content()
            key = next((name for name in ("content", "response", "result", "output") if name in row), "content")
            if isinstance(row.value.get(key), str | list | None) and not _plain_list(row.value.get(key)):
                self._fill(inner, row, key)
            else:
                inner.parts.append(TextPart(text=json.dumps(row.value[key], ensure_ascii=False)))
            call_id = row.text("tool_use_id") or row.text("call_id") or row.text("id") or None
            content.answers.append(_Answer(call_id, inner, row.flag("is_error")))
        elif said in _IMAGES and row.text("modality") in ("", "image"):
            content.parts.append(self._image(content, row, said))
        else:
            content.parts.append(TextPart(text=f"[{said or 'block'}]"))
            content.kept.append(row.value)

    def _image(self, content: _Content, row: Row, said: str) -> Part:
        source = row.row("source") if isinstance(row.value.get("source"), dict) else row
        address: Any = source.value.get("image_url", source.value.get("url", source.value.get("uri")))
        if isinstance(address, dict):
            address = source.row("image_url").text("url") if "image_url" in source else None
        media = source.text("media_type") or source.text("mime_type") or None
        data = source.text("data") or (source.text("content") if said == "blob" else "")
        path = f"data:{media or 'image/png'};base64,{data}" if data else address or source.text("path")
        if not isinstance(path, str):
            raise row.error("", "an image needs data, a path or an address")
        part = self.picture(path, media)
        if isinstance(part, TextPart):
            content.kept.append(row.value)
        return part

    def picture(self, path: str, media_type: str | None = None) -> ImagePart | TextPart:
        """The image at a path or address, or a line of text for one whose bytes cannot be had."""
        try:
            image, data = resolve(path, self._load, media_type)
        except ValueError:
            return TextPart(text=f"[image {path[:200]}]")
        if data is not None:
            self._blobs[image.hash] = data
        return image

    def _said(self, role: Role, content: _Content, call_id: str | None, name: str | None, kept: Json) -> Iterator[Said]:
        for answer in content.answers:
            said = dict(kept) if not content.parts and not content.calls else {}
            if answer.failed:
                said["is_error"] = True
            if answer.content.kept:
                said["blocks"] = answer.content.kept
            parts = tuple(answer.content.parts)
            yield Said(Message(role="tool", parts=parts, tool_call_id=answer.call_id or call_id, name=name), said)
        if content.parts or content.calls or not content.answers:
            if content.kept:
                kept = {**kept, "blocks": content.kept}
            message = Message(
                role=role, parts=tuple(content.parts), tool_calls=tuple(content.calls), tool_call_id=call_id, name=name
            )
            yield Said(message, kept)


def _thinking(row: Row) -> ThinkingPart:
    for key in ("thinking", "text", "content", "reasoning", "reasoning_content"):
        if isinstance(row.value.get(key), str):
            return ThinkingPart(text=row.text(key), signature=row.text("signature") or None)
    summary = "\n".join(part.text("text") for part in row.rows("summary"))
    secret = row.text("data") or row.text("encrypted_content") or row.text("signature") or None
    return ThinkingPart(text=summary, signature=secret)


def _call(row: Row, place: int) -> ToolCall:
    inner = row.row("function") if isinstance(row.value.get("function"), dict) else row
    name = inner.text("name")
    if not name:
        raise inner.error("name", "required field is missing")
    key = next((key for key in ("arguments", "input", "args") if key in inner), "arguments")
    value: Any = inner.value.get(key)
    if value is not None and not isinstance(value, str | dict):
        value = json.dumps(value, ensure_ascii=False)
    own = row.text("call_id") or row.text("id") or row.text("tool_call_id")
    return ToolCall(id=own or f"call_{place}", name=name, arguments=arguments_text(cast("Json | str | None", value)))


def _plain_list(value: Any) -> bool:
    """Whether it is a list of data, not of blocks."""
    return isinstance(value, list) and not all(
        isinstance(item, dict) and isinstance(cast(Json, item).get("type"), str) for item in cast(list[Any], value)
    )
