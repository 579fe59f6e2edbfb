"""What the ids of a tokenizer are: which text each stands for. Two vocabularies are one only where these agree.

    tokenizer.json ─▶ {id: token} ─▶ digest (a folder's)  or  the first id that means something else (`differs`)

How many tokens there are says nothing: fine-tunes add marks, and families of one size share no id.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from silva.errors import UsageError


def token_table(folder: Path) -> dict[int, str]:
    """The token of each id, by the folder's `tokenizer.json`; empty where there is none.

    Raises:
        UsageError: the file is no tokenizer.
    """
    file = folder / "tokenizer.json"
    if not file.is_file():
        return {}
    try:
        data: dict[str, Any] = json.loads(file.read_text("utf-8"))
        given: Any = data["model"]["vocab"]
        if isinstance(given, dict):
            found = {int(number): token for token, number in cast(dict[str, int], given).items()}
        else:  # Unigram: a list of token and score
            found = {number: str(pair[0]) for number, pair in enumerate(given)}
        found |= {int(added["id"]): str(added["content"]) for added in data.get("added_tokens") or ()}
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise UsageError(f"{folder.name}/tokenizer.json: is no tokenizer ({error})") from error
    return found


def table_digest(table: Mapping[int, str]) -> str:
    """A digest of what the ids stand for; "" of none."""
    if not table:
        return ""
    text = json.dumps(sorted(table.items()), ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def differs(one: Mapping[int, str], other: Mapping[int, str]) -> str:
    """The first id that stands for another token in each, in words; "" where no id that both have does."""
    for number in sorted(one.keys() & other.keys()):
        if one[number] != other[number]:
            return f"id {number} is {one[number]!r} in one and {other[number]!r} in the other"
    return ""
