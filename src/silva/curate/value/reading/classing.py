"""Which class a text is of, by a classifier's weights or an endpoint that serves one.

text ─┬▶ folder of weights (transformers, extra `local`) ─────────┐
      └▶ endpoint: vLLM's `/classify`, or `/predict` of TEI's form ┴▶ shares of the labels, or one plain number
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from silva.curate.value.reading.asking import Asking, asking, waited
from silva.curate.value.reading.likelihood import LETTERS_A_TOKEN
from silva.curate.value.reading.told import Asked, folder_of, is_endpoint
from silva.errors import MissingError, UnreachableError, UsageError
from silva.models.errors import ModelError


class Classed(NamedTuple):
    """What a classifier says: the share of each label, in the model's order; one number under "" where it has one
    output and so no classes. Without any the note says why."""

    shares: dict[str, float]
    note: str = ""
    passing: bool = False


def classify(asked: Asked, texts: Sequence[str]) -> list[Classed]:
    """What the classifier says of each text.

    Raises:
        SilvaError: it is not there, or is no classifier.
    """
    if is_endpoint(asked.model):
        found = waited(_ask_all(asked, texts))
        if found and all(each.passing for each in found):
            raise UnreachableError(found[0].note)
        return found
    return _weights(asked.model).classify(texts, asked.tokens)


@lru_cache(maxsize=2)
def _weights(model: str) -> _Weights:
    folder = folder_of(model)
    if folder is None:
        raise UsageError("model local: the bundled model is no classifier; name local:FOLDER or an endpoint")
    return _Weights(folder)


class _Weights:
    def __init__(self, folder: Path) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported: nothing may be fetched
        try:
            import torch
            import transformers
        except ImportError as error:
            raise MissingError("a classifier's weights need transformers: pip install 'silva[local]'") from error
        self._torch = torch
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        try:
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(str(folder))
            self._model: Any = transformers.AutoModelForSequenceClassification.from_pretrained(str(folder)).eval()
        except (OSError, ValueError, KeyError) as fault:
            reason = str(fault).splitlines()[0][:200]
            raise UsageError(f"model folder {folder.name}: no classifier can be read from it ({reason})") from fault
        names = self._model.config.id2label
        self._labels = [str(names.get(place, place)) for place in range(self._model.config.num_labels)]

    def classify(self, texts: Sequence[str], most: int) -> list[Classed]:
        most = min(most, int(getattr(self._model.config, "max_position_embeddings", most)))
        found: list[Classed] = [Classed({})] * len(texts)
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        for begin in range(0, len(order), 8):
            part = order[begin : begin + 8]
            given = [texts[place][: most * LETTERS_A_TOKEN] for place in part]
            ids = self._tokenizer(given, padding=True, truncation=True, max_length=most, return_tensors="pt")
            with self._torch.inference_mode():
                logits = self._model(**ids).logits.float()
            for place, row, width in zip(part, logits, ids["attention_mask"].sum(1).tolist(), strict=True):
                note = f"read to {most} tokens" if width >= most else ""
                if len(row) == 1:
                    found[place] = Classed({"": float(row[0])}, note)
                else:
                    shares = self._torch.softmax(row, -1).tolist()
                    found[place] = Classed(dict(zip(self._labels, shares, strict=True)), note)
        return found


async def _ask_all(asked: Asked, texts: Sequence[str]) -> list[Classed]:
    room = asyncio.Semaphore(asked.parallel)
    async with asking(asked.model) as client:
        return await asyncio.gather(*(_ask(asked, client, room, text) for text in texts))


async def _ask(asked: Asked, client: Asking, room: asyncio.Semaphore, text: str) -> Classed:
    said = text[: asked.tokens * LETTERS_A_TOKEN]
    base = client.endpoint.url.removesuffix("/v1")
    bodies: dict[str, dict[str, Any]] = {
        "classify": {"model": client.endpoint.model, "input": [said]},
        "predict": {"inputs": said, "truncate": True},
    }
    async with room:
        for route, body in bodies.items():
            try:
                shares = await client.post(f"{base}/{route}", body, _shares, asked.deadline)
            except ModelError as error:
                if error.kind in ("missing", "refused"):
                    continue
                return Classed({}, f"the model cannot be asked: {error}", passing=True)
            if shares is not None:
                return Classed(shares, "" if len(said) == len(text) else f"read to {len(said)} letters")
    raise UnreachableError(
        f"model {asked.model}: it is no classifier: neither /classify (vLLM) nor /predict (TEI) tells shares of labels"
    )


class _Entry(msgspec.Struct):
    label: str | None = None
    probs: list[float] | None = None
    score: float | None = None


class _Classes(msgspec.Struct):
    data: list[_Entry]


def _shares(data: bytes) -> dict[str, float] | None:
    """The shares a reply tells, in vLLM's form or in TEI's."""
    try:
        found = msgspec.json.decode(data, type=_Classes | list[_Entry | list[_Entry]])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if isinstance(found, _Classes):
        probs = found.data[0].probs if found.data else None
        if not probs:
            return None
        return {"": probs[0]} if len(probs) == 1 else {str(place): each for place, each in enumerate(probs)}
    flat = found[0] if found and isinstance(found[0], list) else found
    told = {each.label or "": each.score for each in flat if isinstance(each, _Entry) and each.score is not None}
    return {"": next(iter(told.values()))} if len(told) == 1 else told or None
