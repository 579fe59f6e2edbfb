"""Programs of others that some environments and tools need: whether they are there, and which version.

programs() ─▶ node, java, Chromium, podman or docker, the desktop's packages ─▶ lines
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

from silva.cli.doctor_finding import Finding, found

TOPIC = "programs"
_SECONDS = 20
_WANTED = (
    ("Chromium", ("chromium", "chromium-browser", "google-chrome"), "--version", "browser and desktop environments",
     "apt-get install chromium"),
    ("Node.js", ("node", "nodejs"), "--version", "agents that are programs of npm", "apt-get install nodejs npm"),
    ("Java", ("java",), "-version", "environment scienceworld", "apt-get install default-jre-headless"),
    ("git", ("git",), "--version", "agents that work on repositories", "apt-get install git"),
    ("podman or docker", ("podman", "docker"), "--version", "sandbox backend container", "apt-get install podman"),
)  # fmt: skip


def programs() -> Iterator[Finding]:
    """One line for each."""
    for name, words, version, purpose, mend in _WANTED:
        where = next(filter(None, map(shutil.which, words)), "")
        yield found(TOPIC, name, bool(where), _version(where, version) if where else "not on the path", purpose, mend)
    yield _desktop()


def _version(where: str, option: str) -> str:
    try:
        done = subprocess.run(
            [where, option], capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{where}, which does not run: {type(error).__name__}"
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0][:100] if lines else where


def _desktop() -> Finding:
    from silva.envs.gyms.desktop import packages
    from silva.errors import MissingError

    purpose = "environment desktop"
    try:
        packages.check()
    except MissingError as error:
        said, between, command = str(error).partition(": ")
        return found(TOPIC, "desktop", False, said, purpose, command if between else "see docs/guides/desktop.md")
    return found(TOPIC, "desktop", True, "its packages are there", purpose, "")
