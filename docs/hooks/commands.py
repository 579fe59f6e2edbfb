"""Writes the references of commands and settings from the program itself, so that none can be missing.

the command line's parser ─▶ each command, loaded ─▶ its parameters as help tells them ─▶ where a page says `commands`
the configuration of a rollout ─▶ each key with its default ─▶ where a page says `settings`

In a checkout a page with a mark says which command prints the same.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

import typer
from pydantic import BaseModel

from silva.cli import main
from silva.errors import Exit
from silva.rollout.config import RolloutConfig

MARK = "<!-- commands -->"
SETTINGS = "<!-- settings -->"


def on_page_markdown(markdown: str, /, page: Any, config: Any, files: Any) -> str:
    """Replace the marks by every command and every setting (called by MkDocs for every page)."""
    for mark, made in ((MARK, reference), (SETTINGS, settings)):
        if mark in markdown:
            markdown = markdown.replace(mark, made())
    return markdown


def settings() -> str:
    """Every key of a rollout's configuration, in dots, with its default, as a Markdown table."""
    rows = "\n".join(f"| `{key}` | {_code(default)} |" for key, default in _keys(RolloutConfig, ""))
    return f"| key | default |\n|---|---|\n{rows}"


def _keys(section: type[BaseModel], before: str) -> Iterator[tuple[str, str]]:
    for name, field in section.model_fields.items():
        value = field.get_default()
        if isinstance(value, BaseModel):
            yield from _keys(type(value), f"{before}{name}.")
        elif field.is_required():
            yield f"{before}{name}", "must be given"
        else:
            made = field.default_factory is not None and not isinstance(
                field.get_default(call_default_factory=True), dict
            )
            yield f"{before}{name}", "by the clock" if made else _written(field.get_default(call_default_factory=True))


def _written(value: Any) -> str:
    return json.dumps(value, default=lambda other: str(getattr(other, "value", other)))


def reference() -> str:
    """Every command with its arguments and options, and the codes they end with, as Markdown."""
    texts = [_section(context, command) for context, command in commands()]
    codes = "\n".join(f"| {code.value} | {code.name} |" for code in Exit)
    ends = f"## Exit codes\n\n[What each means](exit-codes.md).\n\n| code | name |\n|---:|---|\n{codes}"
    return "\n\n".join([*texts, ends])


def commands() -> Iterator[tuple[Any, Any]]:
    """Every command and group below `silva`, with the context that knows what it is called; a group before its own."""
    root = typer.main.get_command(main.app)
    yield from _below(typer.Context(root, info_name="silva"), root)


def _below(parent: Any, group: Any) -> Iterator[tuple[Any, Any]]:
    for name in group.list_commands(parent):
        # as the command line finds it, which loads a command where only its name was known
        _, command, _ = group.resolve_command(parent, [name])
        context = typer.Context(command, info_name=name, parent=parent)
        yield context, command
        if hasattr(command, "list_commands"):
            yield from _below(context, command)


def _section(context: Any, command: Any) -> str:
    level = "##" if context.parent.parent is None else "###"
    said = inspect.cleandoc(command.help or "")
    usage = f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```"
    return "\n\n".join(filter(None, (f"{level} {context.command_path}", _plain(said), usage, _table(context, command))))


def _table(context: Any, command: Any) -> str:
    rows = [
        f"| {_code(record[0])} | {_cell(record[1])} |"
        for parameter in command.get_params(context)
        if parameter.name != "help" and (record := parameter.get_help_record(context)) is not None
    ]
    return "\n".join(["| argument or option | what it is |", "|---|---|", *rows]) if rows else ""


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _cell(text: str) -> str:
    return _plain(" ".join(text.split())).replace("|", "\\|")


def _plain(text: str) -> str:
    # Help is plain text: what Markdown or HTML would read as marks stays what it is, but for code in back quotes.
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\<*_\[\]])", r"\\\1", part) for part in parts)
