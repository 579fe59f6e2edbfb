"""Which command of a container a process belongs to: every command's environment has a mark of its own, which all that
it starts inherits. The engine's command line tells nothing of it, and can be killed without what runs inside.

    made ─▶ ENGINE exec --env MARK=… ─▶ of_command: the container's processes that have it, and what was started
                                             since by whoever threw its environment away, unless it is another's
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Collection
from pathlib import Path

from silva.sandbox.forkserver.victims import processes, trees

MARK = "SILVA_EXEC"
INSIDE = f"""
found=
for p in /proc/[0-9]*; do grep -qs "{MARK}=$0" "$p/environ" && found="$found ${{p#/proc/}}"; done
[ -n "$found" ] || exit 1
kill -9 $found
"""
"""The same by a shell inside, for engines whose processes are not this user's: kills what has the mark `$0`, and ends
with 1 when there is nothing more."""


def made() -> str:
    """A new mark."""
    return secrets.token_hex(6)


def of_command(namespace: str, mark: str, since: int, others: Collection[str]) -> set[int]:
    """The processes to kill for a command.

    Args:
        namespace: the container's pid namespace, as the kernel names it.
        mark: the command's.
        since: when it was started, in ticks since boot.
        others: marks of what else runs and stays.
    """
    table = processes("/proc")
    marks = {pid: _of(pid) for pid in table if _inside(pid, namespace)}
    theirs = trees(table, [pid for pid, found in marks.items() if found in others])
    unmarked = {pid for pid, found in marks.items() if not found and table[pid][2] >= since and table[pid][3] != "Z"}
    return {pid for pid, found in marks.items() if found == mark} | (unmarked - theirs)


def _inside(pid: int, namespace: str) -> bool:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/pid") == namespace  # noqa: PTH115 - no file stands behind it
    return False


def _of(pid: int) -> str:
    with contextlib.suppress(OSError):
        for each in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            name, _, value = each.partition(b"=")
            if name == MARK.encode():
                return value.decode(errors="replace")
    return ""
