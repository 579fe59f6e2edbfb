"""Which of a few words a model would say next, and how sure it is: one logit instead of a reply that must be read.

prompt, words ─┬▶ weights: the template, one pass ───────────┐
               └▶ endpoint: the first token's `top_logprobs` ─┴▶ Chosen: the words' shares of what is on them, or why
               none
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from silva.curate.value.reading.asking import waited
from silva.curate.value.reading.told import Asked, folder_of, is_endpoint
from silva.errors import UnreachableError, UsageError
from silva.models import Model, ModelError, Request, Sampling, connect
from silva.models.scores import entries
from silva.tree import user

LEAST = 0.01
"""Where less than this share of the first token is on the words, the model did not answer what was asked."""


class Chosen(NamedTuple):
    """How the model's first token is shared among the words, in their order; none, and the reason, where it said
    something else."""

    shares: list[float]
    note: str = ""
    passing: bool = False


class Chooser(Protocol):
    """Whoever chooses among words."""

    def choose(self, prompts: Sequence[str], words: Sequence[str]) -> list[Chosen]:
        """The shares of the words behind each prompt, each a user's turn.

        Raises:
            SilvaError: none can be had.
        """
        ...


def open_chooser(asked: Asked, template: bool = True) -> Chooser:
    """The chooser of a model. `template`: whether weights are given the prompt in their own chat template; without,
    as it stands.

    Raises:
        SilvaError: the weights are not there.
    """
    return _Endpoint(asked) if is_endpoint(asked.model) else _weights(asked.model, asked.tokens, template)


@lru_cache(maxsize=2)
def _weights(model: str, tokens: int, template: bool) -> Chooser:
    return _Weights(model, tokens, template)


def shared(logprobs: Sequence[float]) -> Chosen:
    """The shares of words with these log-probabilities."""
    chances = [math.exp(each) for each in logprobs]
    total = sum(chances)
    if not total >= LEAST:
        return Chosen([], f"the model says something else: {total:.4f} of its first token is on the words asked for")
    return Chosen([each / total for each in chances])


class _Weights:
    def __init__(self, model: str, tokens: int, template: bool) -> None:
        from silva.models.local.likelihood import Likelihood

        self._name = model
        self._model = Likelihood(folder_of(model))
        self._most = min(tokens, self._model.context)
        self._template = template

    def choose(self, prompts: Sequence[str], words: Sequence[str]) -> list[Chosen]:
        forms = [self._forms(word) for word in words]
        asked = [self._ids(prompt) for prompt in prompts]
        found = self._model.choices([ids for ids, _ in asked], [each for form in forms for each in form])
        made: list[Chosen] = []
        for row, (_, note) in zip(found, asked, strict=True):
            left = iter(row)
            chances = [sum(math.exp(next(left)) for _ in form) for form in forms]
            chosen = shared([math.log(chance) if chance else -math.inf for chance in chances])
            made.append(chosen._replace(note=chosen.note or note))
        return made

    def _forms(self, word: str) -> list[int]:
        """The ids that say a word: as it is, with a capital, behind a space."""
        found: dict[int, None] = {}
        for form in (word, word.capitalize(), f" {word}", f" {word.capitalize()}"):
            ids = self._model.encode(form)
            if len(ids) <= 2 and ids and self._model.piece(ids[-1]).strip() == form.strip():
                found[ids[-1]] = None
        if not found:
            raise UsageError(f"model {self._name}: its tokenizer has no token for {word!r}")
        return list(found)

    def _ids(self, prompt: str) -> tuple[list[int], str]:
        ids = self._model.prompt([user(prompt)]) if self._template else self._model.encode(prompt)
        if len(ids) <= self._most:
            return ids, ""
        half = self._most // 2
        return [*ids[:half], *ids[-(self._most - half) :]], f"read to {self._most} tokens"


class _Endpoint:
    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def choose(self, prompts: Sequence[str], words: Sequence[str]) -> list[Chosen]:
        found = waited(self._all(prompts, words))
        if found and all(each.passing for each in found):
            raise UnreachableError(found[0].note)
        return found

    async def _all(self, prompts: Sequence[str], words: Sequence[str]) -> list[Chosen]:
        room = asyncio.Semaphore(self._asked.parallel)
        async with connect(self._asked.model) as model:
            return await asyncio.gather(*(self._one(model, room, prompt, words) for prompt in prompts))

    async def _one(self, model: Model, room: asyncio.Semaphore, prompt: str, words: Sequence[str]) -> Chosen:
        request = Request(
            messages=(user(prompt),),
            sampling=Sampling(temperature=0.0, max_tokens=1, logprobs=True, extra={"top_logprobs": 20}),
            deadline=self._asked.deadline,
        )
        async with room:
            try:
                completion = await model.complete(request)
            except ModelError as error:
                return Chosen([], f"the model cannot be asked: {error}", passing=True)
        told = entries(completion)
        top = told[0].get("top_logprobs") if told and isinstance(told[0], dict) else None
        if not isinstance(top, list):
            raise UnreachableError(
                f"model {self._asked.model}: its replies tell no top_logprobs of a token, which this scorer reads; "
                "name an endpoint that does (vLLM, llama.cpp, OpenAI), or weights: local:FOLDER"
            )
        chances = dict.fromkeys((word.strip().lower() for word in words), 0.0)
        for each in top:
            token = str(each.get("token", "")).strip().lower() if isinstance(each, dict) else ""
            if token in chances:
                chances[token] += math.exp(float(each.get("logprob", -math.inf)))
        return shared([math.log(chance) if chance else -math.inf for chance in chances.values()])
