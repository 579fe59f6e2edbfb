"""Where Chromium runs: namespaces of bubblewrap, without a network, with nothing of the machine but its programs.

    Enclosure(program, doors) ─▶ a script that Playwright starts ─▶ bwrap ─▶ doors.py ─▶ Chromium
                                                                                │ listening sockets, over a unix socket
                                                                                ▼
                                                                             received()

Inside, Chromium is an ordinary user who may make namespaces of their own, so its own sandbox (a namespace and a seccomp
filter for every page) is on as well, also where Silva runs as root.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from silva.errors import MissingError

FIRST_PORT = 8001
"""Of the doors, inside; nothing else listens there."""
_INSIDE = Path("/run/silva")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
_SETTINGS = ("/etc/fonts", "/etc/alternatives", "/etc/ld.so.cache")
_SECONDS = 60.0


class Enclosure:
    """One set of namespaces for one browser. Made ready by the constructor, begun by whoever starts `script`."""

    def __init__(self, program: Path, doors: int) -> None:
        """`program` is Chromium's; `doors` is how many listening sockets are wanted.

        Raises:
            MissingError: bubblewrap is not here, or may make no namespaces.
        """
        check()
        self._doors = doors
        self._folder = Path(tempfile.mkdtemp(prefix="silva-browser-"))
        self._waiting = socket.socket(socket.AF_UNIX)
        self._waiting.bind(str(self._folder / "doors"))
        self._waiting.listen(1)
        self._waiting.setblocking(False)
        shutil.copy(Path(__file__).with_name("doors.py"), self._folder / "doors.py")
        inner = [
            os.path.realpath(sys.executable),
            "-I",
            "-S",
            str(_INSIDE / "doors.py"),
            str(_INSIDE / "doors"),
            str(doors),
            str(FIRST_PORT),
            str(program),
        ]
        command = [*_namespaces(self._folder, program), *inner]
        self.script = self._folder / "chromium"
        self.script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
        self.script.chmod(0o700)

    async def received(self) -> list[socket.socket]:
        """The listening sockets; to be called while the script starts.

        Raises:
            TimeoutError: none came in time.
        """
        async with asyncio.timeout(_SECONDS):
            given, _ = await asyncio.get_running_loop().sock_accept(self._waiting)
        with given:
            given.setblocking(True)
            given.settimeout(_SECONDS)
            _, numbers, _, _ = socket.recv_fds(given, 16, self._doors)
        return [socket.socket(fileno=number) for number in numbers]

    def close(self) -> None:
        """Remove the folder; the namespaces went with Chromium."""
        self._waiting.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def check() -> None:
    """Find out whether Chromium can be enclosed here.

    Raises:
        MissingError: bubblewrap is not here, or may make no namespaces.
    """
    if shutil.which("bwrap") is None:
        raise MissingError(
            "the browser runs in namespaces by bubblewrap, which is not here; install it (Debian: bubblewrap), "
            "or ask for Chromium's own sandbox alone: option isolation=chromium"
        )
    tried = subprocess.run([*_namespaces(None, None), "true"], capture_output=True, text=True, timeout=20, check=False)
    if tried.returncode != 0:
        reason = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise MissingError(
            f"the browser runs in namespaces, which this machine refuses ({reason}); allow user namespaces, or ask for "
            "Chromium's own sandbox alone: option isolation=chromium"
        )


def _namespaces(folder: Path | None, program: Path | None) -> list[str]:
    arguments = ["bwrap", "--unshare-all", "--die-with-parent", "--uid", "1000", "--gid", "1000"]
    for place in map(Path, _SYSTEM):
        if place.is_symlink():
            arguments += ["--symlink", str(place.readlink()), str(place)]
        elif place.exists():
            arguments += ["--ro-bind", str(place), str(place)]
    for setting in _SETTINGS:
        arguments += ["--ro-bind-try", setting, setting]
    arguments += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--setenv", "HOME", "/tmp"]
    for place in (Path(os.path.realpath(sys.base_prefix)), program.parent if program else None):
        if place is not None and not any(place.is_relative_to(system) for system in _SYSTEM):
            arguments += ["--ro-bind", str(place), str(place)]
    if folder is not None:
        arguments += ["--ro-bind", str(folder), str(_INSIDE)]
    return arguments
