"""An owner of sandboxes, for tests that kill it: makes COUNT of them, two sleepers of SECONDS in each, then waits.

python owner_program.py BACKEND STATE COUNT SECONDS
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from silva.sandbox import open_backend


async def main(name: str, state: Path, count: int, seconds: str) -> None:
    """Make them, say which, wait to be killed."""
    backend = await open_backend(name, state=state)
    sandboxes = [await backend.create() for _ in range(count)]
    for sandbox in sandboxes:
        await sandbox.exec(f"(setsid sleep {seconds} &) ; echo x > file")
        await sandbox.session(f"sleep {seconds}")
    print("ready", backend.spawner.pid, flush=True)  # type: ignore[attr-defined]
    await asyncio.sleep(1000)


asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
