"""Pictures and tools that the dialects share the reading of."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dialect_bodies import HELLO, items, responses, said

from silva.models.gateway.dialects import Anthropic, Chat, Malformed, Responses
from silva.models.gateway.dialects.dialect import Dialect
from silva.models.gateway.dialects.images import LARGEST


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://example.org/a.png", "fetches nothing"),
        ("file:///etc/passwd", "fetches nothing"),
        ("", "fetches nothing"),
        ("data:image/png,abc", "must be written"),
        ("data:image/png;base64", "must be written"),
        ("data:image/svg+xml;base64,AAAA", "'image/svg\\+xml' is not supported"),
        ("data:;base64,AAAA", "is not supported"),
        ("data:image/png;base64,AAA", "not base64"),
        ("data:image/png;base64,AA AA", "not base64"),
        ("data:image/png;base64,ÄÄÄÄ", "not base64"),
        ("data:image/png;base64,", "is empty"),
        ("data:image/png;base64," + "A" * (LARGEST // 3 * 4 + 8), "larger than 20 MB"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ask", ["chat", "responses"])
def test_pictures_are_checked(ask: str, url: str, words: str) -> None:
    picture = {"role": "user", "content": [{"type": "input_image", "image_url": url}]}
    if ask == "responses" and not url.startswith("data:"):
        # a backend of the same API may fetch it; before any other it is refused with these words
        ((place, why),) = responses(input=[picture]).native
        assert place == "input[0].content[0].image_url" and words in why
        return
    with pytest.raises(Malformed, match=words):
        if ask == "chat":
            said({"role": "user", "content": [{"type": "image_url", "image_url": url}]})
        else:
            items(picture)


@pytest.mark.parametrize("dialect", [Chat(), Responses(), Anthropic()], ids=lambda d: d.name)
def test_a_repeated_set_of_tools_is_one_object(dialect: Dialect) -> None:
    tool = {"name": "f", "type": "custom", "input_schema": {}, "description": "of " + dialect.name}
    if dialect.name == "chat":
        tool = {"type": "function", "function": {"name": "f"}}
    said: dict[str, Any] = {"input": "x"} if dialect.name == "responses" else {"max_tokens": 1, "messages": HELLO}
    data = json.dumps({"model": "m", "tools": [tool], **said}).encode()
    assert dialect.decode(data).tools is dialect.decode(data).tools
