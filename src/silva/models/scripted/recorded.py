"""Replies from recorded conversations: what the assistant said after the same words before.

The file is JSONL; a line is a conversation with `messages` in OpenAI form (other keys are ignored). Each assistant
message is a recorded turn, found by the digest of all messages before it. Where not all of them were the model's (a
client put words into its mouth), `sampled` lists the places of those that were.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from silva.errors import UsageError
from silva.models.scripted.answer import Answer, Call
from silva.models.serving.chat import ChatMessage, ChatRequest


class _Recorded(ChatMessage, frozen=True):
    reasoning_content: str | None = None


class _Line(msgspec.Struct, frozen=True):
    messages: list[_Recorded]
    sampled: list[int] | None = None


class Recording:
    """The recorded turns of a file. Where one prefix was answered twice, the first answer stands; those of lines with
    `sampled` are given one after another, as often as they were asked for, the last again and again.

    Raises:
        UsageError: the file cannot be read or a line is not a conversation; the message names the line.
    """

    def __init__(self, path: Path) -> None:
        self._answers: dict[bytes, list[Answer]] = {}
        try:
            lines = path.read_bytes().splitlines()
        except OSError as fault:
            raise UsageError(f"recorded turns {path} cannot be read: {fault.strerror}") from fault
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                conversation = msgspec.json.decode(line, type=_Line)
            except (msgspec.DecodeError, UnicodeDecodeError) as fault:
                raise UsageError(f"recorded turns {path}, line {number}: {fault}") from fault
            self._learn(conversation)
        if not self._answers:
            raise UsageError(f"recorded turns {path} hold no assistant message: record a conversation first")

    def _learn(self, conversation: _Line) -> None:
        prefix = hashlib.blake2b(digest_size=16)
        for place, message in enumerate(conversation.messages):
            if message.role == "assistant" and conversation.sampled is None:
                self._answers.setdefault(prefix.digest(), [_answer(message)])
            elif message.role == "assistant" and place in (conversation.sampled or ()):
                self._answers.setdefault(prefix.digest(), []).append(_answer(message))
            prefix.update(_fact(message))

    def find(self, request: ChatRequest) -> Answer | None:
        """What was said after exactly these messages, or None."""
        prefix = hashlib.blake2b(digest_size=16)
        for message in request.messages:
            prefix.update(_fact(message))
        answers = self._answers.get(prefix.digest())
        if not answers:
            return None
        return answers.pop(0) if len(answers) > 1 else answers[0]


def _answer(message: _Recorded) -> Answer:
    calls = tuple(
        Call(name=call.function.name, arguments=call.function.arguments, id=call.id)
        for call in message.tool_calls or ()
    )
    return Answer(text=message.text, thinking=message.reasoning_content or "", tool_calls=calls)


def _fact(message: ChatMessage) -> bytes:
    return msgspec.json.encode(message.fact) + b"\n"
