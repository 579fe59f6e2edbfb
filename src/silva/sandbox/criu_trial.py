"""Whether CRIU works here: found out by a sandbox that is made to be thrown away, written down, and brought back.

trial() ─▶ python -m silva.sandbox.criu_trial ─▶ a session says its number; does the branch know it? ─▶ one line
"""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from silva.errors import SilvaError
from silva.sandbox import criu

_SECONDS = 60
_HAVE = "install CRIU 4.2 or newer, and name it by SILVA_CRIU if it is not on the path"
_NUMBER = "4711"


@functools.cache
def trial() -> str:
    """Why processes cannot be written down and brought back here; "" where they can. Cached: a machine does not change
    under a running program."""
    program = criu.program()
    if not program:
        return f"there is no CRIU: {_HAVE}"
    if not os.access(program, os.X_OK) or not Path(program).is_file():
        return f"CRIU is to be {program} (SILVA_CRIU), which is no program: {_HAVE}"
    if os.geteuid() != 0:
        return "CRIU is used by root alone here: open the backend as root"
    with tempfile.TemporaryDirectory(prefix="silva-trial-") as scratch:
        try:
            # A process of its own, with an event loop of its own: this may be asked for from within one.
            tried = subprocess.run(
                [sys.executable, "-m", "silva.sandbox.criu_trial", scratch],
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
                stdin=subprocess.DEVNULL,
                cwd="/",
            )
        except subprocess.TimeoutExpired:
            return f"a trial of CRIU ({program}) did not end within {_SECONDS} s"
    said = (tried.stdout if tried.returncode == 0 else tried.stderr).strip().splitlines()
    if tried.returncode == 0 and not said:
        return ""
    return f"a trial of CRIU ({program}) failed: {said[-1] if said else f'exit code {tried.returncode}'}"


async def tried(state: Path) -> str:
    """What goes wrong with a throw-away sandbox; "" when nothing does."""
    from silva.sandbox.namespaces import Namespaces
    from silva.sandbox.protocol import Spec

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
