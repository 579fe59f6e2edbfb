"""Writes the reference of commands from the command line's own parser, so that no command and no option can be missing.

silva.cli.main.COMMANDS ─▶ each command, loaded ─▶ its parameters as help tells them ─▶ where the page says the mark

A page of the site is made of it, and read in a checkout it says which command prints the same.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer

from silva.cli import main
from silva.errors import Exit

MARK = "<!-- commands -->"


def on_page_markdown(markdown: str, /, page: Any, config: Any, files: Any) -> str:
    """Replace the mark by every command (called by MkDocs for every page)."""
    return markdown.replace(MARK, reference()) if MARK in markdown else markdown


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
