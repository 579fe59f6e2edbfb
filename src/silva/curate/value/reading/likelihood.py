"""How likely a model holds an answer: nats a token, behind its question or behind nothing.

    (question or None, answer) ─┬▶ weights: the model's own template, one pass ─┐
                                └▶ endpoint: `echo` with `logprobs` ────────────┴▶ Read: nats of each token, or why none

An endpoint is given plain text (question, an empty line, answer), as its `/completions` knows no roles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

import msgspec

from silva.curate.value.reading.asking import Asking, asking, waited
from silva.curate.value.reading.told import Asked, folder_of, is_endpoint
from silva.errors import UnreachableError
from silva.models.errors import ModelError

LETTERS_A_TOKEN = 12
"""More letters of a text than these, times the tokens to read, are not looked at: 10 MB take long to cut into
tokens."""


class Read(NamedTuple):
    """What a model made of a text: nats of each token read, and a remark; without nats the remark says why."""

    nats: list[float]
    note: str = ""
    passing: bool = False


class Reader(Protocol):
    """Whoever says how likely a text is."""

    def read(self, pairs: Sequence[tuple[str | None, str]]) -> list[Read]:
        """The nats of each answer behind its question, or behind nothing.

        Raises:
            SilvaError: none can be had.
        """
        ...


def open_reader(asked: Asked) -> Reader:
    """The reader of a model.

    Raises:
        SilvaError: the weights are not there, or the endpoint's name cannot be used.
    """
    return _Endpoint(asked) if is_endpoint(asked.model) else _weights(asked.model, asked.tokens)


@lru_cache(maxsize=2)
def _weights(model: str, tokens: int) -> Reader:
    return _Weights(model, tokens)


class _Weights:
    def __init__(self, model: str, tokens: int) -> None:
        from silva.models.local.likelihood import Likelihood

        self._model = Likelihood(folder_of(model))
        self._most = min(tokens, self._model.context)

    def read(self, pairs: Sequence[tuple[str | None, str]]) -> list[Read]:
        made = [self._ids(question, answer) for question, answer in pairs]
        nats = self._model.losses([(prompt, after) for prompt, after, _ in made])
        return [
            Read(each, note) if each else Read([], "its answer has no token")
            for each, (_, _, note) in zip(nats, made, strict=True)
        ]

    def _ids(self, question: str | None, answer: str) -> tuple[list[int], list[int], str]:
        """The ids of both. Where they are too long the answer has half of the room at least, and the question loses
        its middle."""
        from silva.tree import user

        letters = self._most * LETTERS_A_TOKEN
        after = self._model.encode(answer[:letters])
        if question is None:
            prompt = list(self._model.start)
        else:
            asked = question if len(question) <= letters else question[: letters // 2] + question[-letters // 2 :]
            prompt = self._model.prompt([user(asked)])
        cut = len(prompt) + len(after) > self._most or len(answer) > letters
        if cut:
            after = after[: max(self._most - len(prompt), self._most // 2)]
            room = self._most - len(after)
            prompt = [*prompt[: room // 2], *prompt[-(room - room // 2) :]] if len(prompt) > room else prompt
        return prompt, after, f"read to {self._most} tokens" if cut else ""


class _Scores(msgspec.Struct):
    token_logprobs: list[float | None] | None = None
    text_offset: list[int] | None = None


class _Choice(msgspec.Struct):
    logprobs: _Scores | None = None


class _Reply(msgspec.Struct):
    choices: list[_Choice] = []


class _Endpoint:
    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def read(self, pairs: Sequence[tuple[str | None, str]]) -> list[Read]:
        found = waited(self._all(pairs))
        if found and all(each.passing for each in found):
            raise UnreachableError(found[0].note)
        return found

    async def _all(self, pairs: Sequence[tuple[str | None, str]]) -> list[Read]:
        room = asyncio.Semaphore(self._asked.parallel)
        async with asking(self._asked.model) as client:
            return await asyncio.gather(*(self._one(client, room, *pair) for pair in pairs))

    async def _one(self, client: Asking, room: asyncio.Semaphore, question: str | None, answer: str) -> Read:
        letters = self._asked.tokens * LETTERS_A_TOKEN // 2
        before = "" if question is None else f"{question[-letters:]}\n\n"
        said = answer[:letters]
        cut = len(said) < len(answer) or len(question or "") > letters
        text = before + said
        body = {"model": client.endpoint.model, "prompt": text, "max_tokens": 1, "temperature": 0}
        async with room:
            try:
                scores = await client.post(
                    f"{client.endpoint.url}/completions",
                    body | {"echo": True, "logprobs": 1},
                    _scores,
                    self._asked.deadline,
                )
            except ModelError as error:
                if error.kind in ("refused", "missing"):
                    raise UnreachableError(f"{error}; {_NEEDS}") from error
                return Read([], f"the model cannot be asked: {error}", passing=True)
        if scores is None or scores.token_logprobs is None or scores.text_offset is None:
            raise UnreachableError(f"model {self._asked.model}: its replies tell no log-probabilities; {_NEEDS}")
        within = [
            -value
            for value, at in zip(scores.token_logprobs, scores.text_offset, strict=False)
            if value is not None and len(before) <= at < len(text)
        ]
        if not within:
            return Read([], "the endpoint told no log-probability of its answer")
        return Read(within, f"read to {letters} letters" if cut else "")


_NEEDS = (
    "needed is `/completions` with `echo` and `logprobs`, as vLLM and llama.cpp serve it; or name weights: local, "
    "local:FOLDER"
)


def _scores(data: bytes) -> _Scores | None:
    try:
        reply = msgspec.json.decode(data, type=_Reply)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return reply.choices[0].logprobs if reply.choices else None
