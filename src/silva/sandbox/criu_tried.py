"""The trial of CRIU itself, in a process of its own (`silva.sandbox.criu_trial` starts it and reads what it says)."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

from silva.errors import SilvaError
from silva.sandbox.namespaces import Namespaces
from silva.sandbox.protocol import Spec

_NUMBER = "4711"


async def tried(state: Path) -> str:
    """What goes wrong with a throw-away sandbox; "" when nothing does."""
    async with await Namespaces.open(state=state) as backend:
        backend.trying = True
        sandbox = await backend.create(Spec(processes=True))
        session = await sandbox.session()
        await session.send(f"stty -echo; echo there > /dev/shm/file; v={_NUMBER}; echo re''ady\n")
        if not await session.until("ready", within=20):
            return "a shell that process 1 is the parent of does not start"
        snapshot = backend.snapshots.find(await sandbox.checkpoint())
        if snapshot.note:
            return f"it could not be written down: {snapshot.note}"
        (branch,) = await sandbox.fork(snapshot.id)
        if branch.lost:
            return branch.lost
        again = branch.sessions[session.id]
        since = again.position
        await again.send("echo $v $(cat /dev/shm/file)\n")
        if not await again.until(f"{_NUMBER} there", since, within=20):
            return "what was brought back does not answer as it should"
    return ""


def main() -> int:
    """Say what goes wrong."""
    state = Path(sys.argv[1])
    try:
        wrong = asyncio.run(tried(state))
    except (SilvaError, OSError) as error:
        wrong = str(error)
    finally:
        shutil.rmtree(state, ignore_errors=True)
        state.mkdir()
    sys.stdout.write(wrong)
    return 0


if __name__ == "__main__":
    sys.exit(main())
