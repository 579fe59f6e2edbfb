"""Two vocabularies are one where their ids stand for the same tokens, however many they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from silva.errors import UsageError
from silva.models.exact.token_table import differs, table_digest, token_table


def folder(place: Path, vocabulary: object, added: list[dict[str, object]] | None = None, indent: int = 0) -> Path:
    place.mkdir()
    model = {"model": {"vocab": vocabulary}, "added_tokens": added or []}
    (place / "tokenizer.json").write_text(json.dumps(model, indent=indent))
    return place


def test_equal_size_is_not_equal_tokens(tmp_path: Path) -> None:
    one = token_table(folder(tmp_path / "one", {"a": 0, "b": 1, "c": 2}))
    other = token_table(folder(tmp_path / "other", {"a": 0, "c": 1, "b": 2}))
    assert len(one) == len(other) and table_digest(one) != table_digest(other)
    assert differs(one, other) == "id 1 is 'b' in one and 'c' in the other"


def test_how_the_file_is_laid_out_or_ordered_changes_nothing(tmp_path: Path) -> None:
    mark = [{"id": 2, "content": "<end>", "special": True}]
    one = token_table(folder(tmp_path / "one", {"a": 0, "b": 1}, mark))
    other = token_table(folder(tmp_path / "other", {"b": 1, "a": 0}, mark, indent=2))
    unigram = token_table(folder(tmp_path / "unigram", [["a", -1.0], ["b", -2.0]], mark))
    assert table_digest(one) == table_digest(other) == table_digest(unigram)
    assert differs(one, {**other, 3: "more"}) == ""


def test_what_cannot_be_compared_is_told(tmp_path: Path) -> None:
    assert table_digest(token_table(tmp_path)) == ""
    (tmp_path / "tokenizer.json").write_text('{"model": 3}')
    with pytest.raises(UsageError, match="is no tokenizer"):
        token_table(tmp_path)
