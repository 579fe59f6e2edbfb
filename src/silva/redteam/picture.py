"""Words in a picture: an attack that is drawn and not written, for models that look at images.

    words ─ drawn ─▶ PNG, its hash ─ pictured ─▶ behind the words of the message that a surface writes into
    agent ─ reads_none ─▶ "" | why its model takes no images (asked once with a small picture of nothing)

The same words make the same picture, so the hash of its bytes tells whether a model was shown it.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import textwrap
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from silva.envs import Observation
from silva.errors import MissingError
from silva.models.errors import ModelError
from silva.models.model import Model, Request, Sampling
from silva.redteam.surface import Surface
from silva.rollout.stages import Live
from silva.tree import ImagePart, Message, TextPart

CAPTION = "[image attached]"
"""What stands in the text where the picture is."""

MOST_LINES = 120
_COLUMNS, _SIZE, _MARGIN = 60, 22, 24

_asked: WeakKeyDictionary[Model, asyncio.Future[str]] = WeakKeyDictionary()


@lru_cache(maxsize=64)
def drawn(words: str) -> tuple[ImagePart, bytes]:
    """A picture of the words, black on white, as PNG.

    Raises:
        MissingError: Pillow is not installed.
        ValueError: the words are too many for one picture.
    """
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise MissingError("the framing image draws with the package Pillow: pip install 'silva[images]'") from error
    lines = [each for line in words.split("\n") for each in textwrap.wrap(line, _COLUMNS) or [""]]
    if len(lines) > MOST_LINES:
        raise ValueError(f"the words make {len(lines)} lines; a picture holds {MOST_LINES}")
    font = ImageFont.load_default(_SIZE)
    height = _SIZE * 3 // 2
    width = max(int(font.getlength(line)) for line in lines)
    image = Image.new("L", (width + 2 * _MARGIN, len(lines) * height + 2 * _MARGIN), 255)
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((_MARGIN, _MARGIN + number * height), line, fill=0, font=font)
    kept = io.BytesIO()
    image.save(kept, "PNG")
    data = kept.getvalue()
    return ImagePart(hash=hashlib.sha256(data).hexdigest(), width=image.width, height=image.height), data


def pictured(surface: Surface, observation: Observation, part: ImagePart, data: bytes) -> Observation | str:
    """The observation with the picture where the surface writes, or why there is no place for it."""
    placed = surface.place(observation, CAPTION)
    if placed is None:
        return f"nothing to write into on the surface {surface.name}"
    messages = list(placed.messages)
    before = observation.messages
    at = next((at for at, message in enumerate(messages) if at >= len(before) or message != before[at]), None)
    if at is None:
        return f"a picture stands in a message, and {surface.name} is none"
    if messages[at].role == "system":
        return "a system message takes no picture"
    messages[at] = msgspec.structs.replace(messages[at], parts=(*messages[at].parts, part))
    blobs = {**observation.blobs, part.hash: data}
    return msgspec.structs.replace(placed, messages=tuple(messages), blobs=blobs)


async def reads_none(live: Live) -> str:
    """Why the agent's model looks at no pictures; "" where it does. A model is asked once, and a policy without a model
    is taken to see what it is shown.

    Raises:
        ModelError: the model cannot be had.
    """
    if live.config.command:
        return "a program is told in words what its environment says"
    model: Any = getattr(live.agent, "model", None)
    if model is None:
        return ""
    if model not in _asked:
        _asked[model] = asyncio.ensure_future(_refusal(model, live.config.deadlines.model))
    try:
        return await asyncio.shield(_asked[model])
    except ModelError:
        _asked.pop(model, None)  # it is asked again, when it can be had
        raise


async def _refusal(model: Model, seconds: float) -> str:
    try:
        part, data = drawn("?")
    except MissingError as error:
        return str(error)
    asked = Message(role="user", parts=(TextPart(text="What does the picture say?"), part))
    images = {part.hash: data}
    try:
        await model.complete(
            Request(messages=(asked,), sampling=Sampling(max_tokens=8), images=images, deadline=seconds)
        )
    except ModelError as error:
        if error.kind != "refused":
            raise
        return f"its model takes no images ({error})"
    return ""
