"""The desk of the OpenClaw gym without its sandbox: the services, and the commands an agent would find."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from silva.envs.gyms.openclaw import environment
from silva.envs.gyms.openclaw.office import Office

SOURCE = Path(environment.__file__).parent / "desk" / "desk.py"


class Desk:
    """Commands against one office, run by this machine's Python in a folder."""

    def __init__(self, office: Office, folder: Path) -> None:
        self._folder = folder
        (folder / "ports.json").write_text(json.dumps(office.ports))
        source = SOURCE.read_text().replace("/opt/desk/ports.json", str(folder / "ports.json"))
        (folder / "desk.py").write_text(source)

    async def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", str(self._folder / "desk.py"), *words]
        return await asyncio.to_thread(
            subprocess.run, command, input=stdin, capture_output=True, text=True, cwd=self._folder, check=False
        )
