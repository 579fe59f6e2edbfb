"""Tools of a package that misbehave, each in one way; found by an entry point that a test writes."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from silva.elf.artefact import Rows, Table
from silva.elf.tool import Cost, tool


@tool(asks=("linger",), cost=Cost(seconds=0.1))
def linger(rows: Rows, seconds: float = 30.0) -> Rows:
    """Take long."""
    time.sleep(seconds)
    return rows


@tool(asks=("devour",))
def devour(rows: Rows) -> Rows:
    """Eat memory."""
    held: list[bytes] = []
    while True:
        held.append(b"x" * (32 << 20))


@tool(asks=("fib",))
def fib(rows: Rows) -> Rows:
    """Say rows and give a table."""
    found: Any = Table(rows=({"a": 1},))
    return found


@tool(asks=("phone",))
def phone(rows: Rows) -> Rows:
    """Open a socket, and hide that it could not."""
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", 9), timeout=1)
    return rows


@tool(asks=("snoop",))
def snoop(rows: Rows, path: str) -> Rows:
    """Read another data set."""
    Path(path).read_text(encoding="utf-8")
    return rows
