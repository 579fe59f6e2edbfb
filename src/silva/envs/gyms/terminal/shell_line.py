"""What a shell line would run, for rules that look at what an agent types: see `silva.tree.actions.shell`."""

from __future__ import annotations

from collections.abc import Iterator

from silva.tree import actions


def programs(line: str) -> Iterator[list[str]]:
    """The programs of a line, outermost first, each as its name and arguments."""
    return (list(program.words) for program in actions.programs(line) if program.words)
