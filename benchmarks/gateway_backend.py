"""The model server behind every gateway: vLLM's chat format from prebuilt bytes, far faster than what is measured.

    bytes ─▶ Reader (one HTTP request) ─▶ nonce of the last message ─▶ prebuilt reply around that nonce ─▶ bytes

Every prompt carries a nonce, `nonce-CCCCCCCCCCCC.TT` (conversation, turn). The reply's text begins with it, its `prompt_token_ids`
begin with four ids made of the conversation, and turn T's prompt ids are exactly turn T-1's prompt ids, its sampled ids, and
some more: what a tokenizer would give for a conversation that grows. So no two prompts are alike and a gateway that links
turns by prefix finds them linked. Token ids and log probabilities are always given, asked for or not.

Streams go out in one write, one event a token: a gateway is measured at its own speed, not at a model's.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from typing import cast

import uvloop

PROMPT_TOKENS = 2000
SAMPLED_TOKENS = 200
TURN_TOKENS = 50
"""Prompt tokens a later user message adds to what was sampled before it."""
MARK = b"nonce-"
NONCE_LENGTH = len(MARK) + 12 + 1 + 2
_draw = random.Random(7)
_WORDS = [
    " " + "".join(_draw.choices("abcdefghijklmnoprstuvw", k=_draw.randint(1, 6))) for _ in range(SAMPLED_TOKENS - 1)
]
_IDS = [_draw.randint(20000, 99999) for _ in range(40000)]
_LOGPROBS = [round(-_draw.expovariate(3.0), 7) for _ in range(SAMPLED_TOKENS)]
TAIL = "".join(_WORDS)
"""What every reply says after its nonce."""


def nonce(conversation: int, turn: int) -> bytes:
    """The nonce of one request: `NONCE_LENGTH` ASCII bytes that no JSON encoder escapes."""
    return b"nonce-%012x.%02d" % (conversation, turn)


def head_ids(mark: bytes) -> list[int]:
    """The four prompt ids (10000 to 14095) that tell a nonce's conversation."""
    return [10000 + int(mark[at : at + 3], 16) for at in range(len(MARK), len(MARK) + 12, 3)]


def prompt_length(turn: int) -> int:
    """How many prompt ids the request of this turn has."""
    return PROMPT_TOKENS + turn * (SAMPLED_TOKENS + TURN_TOKENS)


@cache
def _turn(turn: int) -> tuple[list[int], list[int]]:
    length = prompt_length(turn) - 4
    return _IDS[:length], _IDS[length : length + SAMPLED_TOKENS]


def _entry(token: str, logprob: float, *, given: bool = True) -> dict:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode()) if given else None, "top_logprobs": []}


def turn_of(prompt: list[int], sampled: list[int]) -> tuple[int, ...] | None:
    """Which turn these ids are of, as five numbers that no other turn has; None where any id is not as it was served."""
    turn, rest = divmod(len(prompt) - PROMPT_TOKENS, SAMPLED_TOKENS + TURN_TOKENS)
    if rest or turn < 0:
        return None
    served = _turn(turn)
    return (*prompt[:4], turn) if (list(prompt[4:]), list(sampled)) == served else None


@cache
def _parts(turn: int, stream: bool) -> list[bytes]:
    """A reply's bytes, cut where the nonce stands (`@nonce@`) and where the four ids stand (`@ids@`)."""
    prompt, sampled = _turn(turn)
    base = {"id": "chatcmpl-@nonce@", "created": int(time.time()), "model": "scripted"}
    usage = {
        "prompt_tokens": len(prompt) + 4,
        "completion_tokens": SAMPLED_TOKENS,
        "total_tokens": len(prompt) + 4 + SAMPLED_TOKENS,
    }
    first = _entry("@nonce@", _LOGPROBS[0], given=False)
    entries = [first, *(_entry(word, value) for word, value in zip(_WORDS, _LOGPROBS[1:], strict=True))]
    if stream:
        whole = (
            b"".join(b"data: " + _json(one) + b"\n\n" for one in _events(base, prompt, sampled, entries, usage))
            + b"data: [DONE]\n\n"
        )
    else:
        message = {"role": "assistant", "content": "@nonce@" + TAIL, "refusal": None, "tool_calls": []}
        choice = {
            "index": 0,
            "message": message,
            "logprobs": {"content": entries},
            "finish_reason": "stop",
            "stop_reason": None,
            "token_ids": sampled,
        }
        whole = _json(
            {
                **base,
                "object": "chat.completion",
                "choices": [choice],
                "usage": usage,
                "prompt_logprobs": None,
                "prompt_token_ids": ["@ids@", *prompt],
            }
        )
    kind = b"text/event-stream" if stream else b"application/json"
    length = len(_fill(_cut(whole), nonce(0, turn)))
    return _cut(b"HTTP/1.1 200 OK\r\ncontent-type: " + kind + b"\r\ncontent-length: %d\r\n\r\n" % length + whole)


def _events(base: dict, prompt: list[int], sampled: list[int], entries: list[dict], usage: dict) -> Iterator[dict]:
    common = {**base, "object": "chat.completion.chunk"}
    role = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    yield {**common, "choices": [role], "prompt_token_ids": ["@ids@", *prompt]}
    for at, (entry, token) in enumerate(zip(entries, sampled, strict=True)):
        finish = "stop" if at == len(sampled) - 1 else None
        delta = {
            "index": 0,
            "delta": {"content": entry["token"]},
            "logprobs": {"content": [entry]},
            "finish_reason": finish,
            "token_ids": [token],
        }
        yield {**common, "choices": [delta]}
    yield {**common, "choices": [], "usage": usage}


def _json(value: dict) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _cut(whole: bytes) -> list[bytes]:
    """Texts and marks in turn: every odd piece is `nonce` or `ids`."""
    return whole.replace(b'"@ids@"', b"@ids@").split(b"@")


def _fill(parts: list[bytes], mark: bytes) -> bytes:
    filled = parts.copy()
    values = {b"nonce": mark, b"ids": b"%d,%d,%d,%d" % tuple(head_ids(mark))}
    for at in range(1, len(parts), 2):
        filled[at] = values[parts[at]]
    return b"".join(filled)


def reply(body: bytes) -> bytes:
    """The whole HTTP answer to one chat request's body.

    Raises:
        ValueError: it carries no nonce.
    """
    at = body.rfind(MARK)
    if at < 0:
        raise ValueError("a chat request without a nonce")
    mark = body[at : at + NONCE_LENGTH]
    stream = b'"stream":true' in body or b'"stream": true' in body
    return _fill(_parts(int(mark[-2:]), stream), mark)


class Reader(asyncio.Protocol):
    """One connection: reads whole requests, answers each at once. `served` counts chat requests of the whole process."""

    served = 0

    def __init__(self) -> None:
        self._pending = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer every whole request that has come."""
        self._pending = self._pending + data if self._pending else data
        while self._pending:
            end = self._pending.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._pending[:end].lower()
            body = _body(head, self._pending, end + 4)
            if body is None:
                return
            content, self._pending = body
            self._answer(head, content)

    def _answer(self, head: bytes, content: bytes) -> None:
        assert self._transport is not None
        path = head.split(b" ", 2)[1].split(b"?", 1)[0]
        if path.endswith(b"/chat/completions"):
            Reader.served += 1
            self._transport.write(reply(content))
        elif path.endswith(b"/models"):
            self._transport.write(
                _plain(
                    {
                        "object": "list",
                        "data": [{"id": "scripted", "object": "model", "created": 0, "owned_by": "benchmark"}],
                    }
                )
            )
        else:
            self._transport.write(_plain({"status": "ok", "served": Reader.served}))


def _plain(value: dict) -> bytes:
    body = _json(value)
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def _body(head: bytes, data: bytes, start: int) -> tuple[bytes, bytes] | None:
    """The body that begins at `start` and what follows it, or None when it is not all there."""
    at = head.find(b"\r\ncontent-length:")
    if at >= 0:
        end = start + int(head[at + 17 :].split(b"\r\n", 1)[0])
        return (data[start:end], data[end:]) if len(data) >= end else None
    if b"\r\ntransfer-encoding:" not in head:
        return b"", data[start:]
    pieces: list[bytes] = []
    while (line := data.find(b"\r\n", start)) >= 0:
        size = int(data[start:line].split(b";")[0], 16)
        start = line + 2 + size + 2
        if len(data) < start:
            return None
        if not size:
            return b"".join(pieces), data[start:]
        pieces.append(data[line + 2 : line + 2 + size])
    return None


async def serve() -> None:
    """Listen on a free loopback port, print the base URL, serve until killed."""
    server = await asyncio.get_running_loop().create_server(Reader, "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """The backend in a process of its own; gives its base URL (without `/v1`).

    Raises:
        RuntimeError: it did not start.
    """
    process = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError("the backend did not start")
        yield url
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0]).parse_args()
    uvloop.run(serve())
