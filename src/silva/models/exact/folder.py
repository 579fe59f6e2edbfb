"""What a model's folder says about its tokens: the tokenizer, the chat template, the marks that end a reply.

    tokenizer.json ────────────────────────────────┐
    chat_template.jinja | tokenizer_config.json ───┼─▶ read_folder ─▶ ModelFolder
    generation_config.json (where it is) ──────────┘

The form is the one every Hugging Face checkpoint has; weights are not looked at.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from silva.errors import UsageError
from silva.tree import Record


class ModelFolder(Record, frozen=True, kw_only=True):
    """The text of `tokenizer.json` and of the chat template; `tokens` are the named special tokens (`bos_token`, …) a
    template may write; `ends` the ids the configuration says end a reply; `name` is what messages call the folder."""

    name: str
    tokenizer: str
    template: str
    tokens: dict[str, str]
    ends: tuple[int, ...] = ()


def read_folder(folder: Path) -> ModelFolder:
    """Read the folder of a model.

    Raises:
        UsageError: it is no folder, a file is missing or cannot be read; the message says which.
    """
    name = folder.name
    if not folder.is_dir():
        raise UsageError(f"model folder {name}: there is no such folder; name one with tokenizer.json in it")
    tokenizer = _text(folder, "tokenizer.json")
    if tokenizer is None:
        raise UsageError(f"model folder {name}: tokenizer.json is missing; save the model's fast tokenizer there")
    config = _object(folder, "tokenizer_config.json")
    tokens = _named_tokens(_object(folder, "special_tokens_map.json")) | _named_tokens(config)
    ends = _object(folder, "generation_config.json").get("eos_token_id")
    listed: list[Any] = ends if isinstance(ends, list) else [ends]
    return ModelFolder(
        name=name,
        tokenizer=tokenizer,
        template=_template(folder, config),
        tokens=tokens,
        ends=tuple(number for number in listed if isinstance(number, int)),
    )


def _template(folder: Path, config: dict[str, Any]) -> str:
    found: Any = _text(folder, "chat_template.jinja")
    if found is None:
        found = config.get("chat_template") or _object(folder, "chat_template.json").get("chat_template")
    if isinstance(found, list):  # several by name: the one for general use
        found = {entry.get("name"): entry.get("template") for entry in found if isinstance(entry, dict)}.get("default")
    if not isinstance(found, str):
        raise UsageError(
            f"model folder {folder.name}: it has no chat template; put the model's own into chat_template.jinja"
        )
    return found


def _named_tokens(config: dict[str, Any]) -> dict[str, str]:
    named: dict[str, str] = {}
    for key, value in config.items():
        content = value.get("content") if isinstance(value, dict) else value
        if key.endswith("_token") and isinstance(content, str):
            named[key] = content
    return named


def _text(folder: Path, name: str) -> str | None:
    path = folder / name
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8"
        raise UsageError(f"model folder {folder.name}: {name} cannot be read: {reason}") from fault


def _object(folder: Path, name: str) -> dict[str, Any]:
    text = _text(folder, name)
    if text is None:
        return {}
    try:
        return msgspec.json.decode(text.encode(), type=dict[str, Any])
    except msgspec.DecodeError as fault:
        raise UsageError(f"model folder {folder.name}: {name} is not a JSON object: {fault}") from fault
