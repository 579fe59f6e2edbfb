"""The processes of one sandbox on their way into a snapshot and out of it: what `silva.sandbox.criu` words, done.

take: CRIU holds them still ─▶ writes them down ─▶ files copied ─▶ they go on
bring_back: mounts ─▶ CRIU ─▶ process 1 adopted ─▶ loopback up ─▶ sessions' terminals and pipes taken hold of
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any

from silva.errors import SilvaError
from silva.sandbox import criu, kept
from silva.sandbox.protocol import Spec
from silva.sandbox.session import Past
from silva.sandbox.spawner import Child, Spawner
from silva.tree import Record


class Refused(SilvaError):
    """CRIU could not take, or bring back, what runs in a sandbox; the message says why."""


class Live(Record, frozen=True, kw_only=True):
    """A session that was brought back: what is known of it, its program, its terminal's other end."""

    past: Past
    program: kept.Kept
    terminal: int


class Back(Record, frozen=True, kw_only=True):
    """What was brought back: process 1 as the fork server's child, and the sessions."""

    first: Child
    sessions: tuple[Live, ...]


class Frozen:
    """How one backend's processes are written down and brought back.

    Args:
        spawner: what runs CRIU.
        folder: the backend's.
        user: whose rights the sandboxes' programs have; None for the caller's.
    """

    def __init__(self, spawner: Spawner, folder: Path, user: int | None) -> None:
        self._spawner = spawner
        self._cache = folder / criu.CACHE
        self._prepared = folder / "etc"
        self._user = user
        self._seen = criu.user(user)

    async def take(self, first: int, top: Path, copy: Path, images: Path, sessions: tuple[Past, ...]) -> None:
        """Write down what runs below process 1 (its id here) to `images`, with the files of `top` copied to `copy`.
        All goes on running.

        Raises:
            Refused: it cannot be written down.
            OSError: `images` cannot be written.
        """
        await asyncio.to_thread(images.mkdir, mode=0o700)
        places = criu.mounted(first)
        about = criu.About(mounts=places.mounts, folders=places.folders, sessions=sessions)
        message = criu.written(first, about, images, top, copy, self._cache, self._seen)
        with open(os.devnull, "wb") as quiet:  # noqa: ASYNC230, PTH123
            code = await self._spawner.dump(message, quiet.fileno())
        if code:
            raise Refused(_why(code, images / criu.LOG))
        await asyncio.to_thread(self._keep, images, about)

    def _keep(self, images: Path, about: criu.About) -> None:
        (images / criu.LOG).unlink(missing_ok=True)
        criu.keep(images, about)
        if self._user is not None:
            # CRIU reads them as root and as the root of the sandbox's users, and nobody else is to.
            for path in (images, *images.iterdir()):
                os.chown(path, 0, self._user - 1)
                path.chmod(0o750 if path is images else 0o640)

    async def bring_back(self, images: Path, folder: Path, spec: Spec, message: dict[str, Any]) -> Back:
        """Have what was written down run on, in a new sandbox.

        Args:
            images: where it was written down; it is only read.
            folder: the sandbox's.
            spec: what it is.
            message: the fork server's words for its files, its control group and its user.

        Raises:
            Refused: it cannot be brought back; nothing of it runs.
            StoreError: what was written down cannot be read.
        """
        about = criu.read(images)
        pid, log = folder / "first.pid", folder / criu.LOG
        pid.unlink(missing_ok=True)
        words = criu.back(about, spec, images, pid, log, self._cache, self._seen, self._prepared)
        reports: dict[int, int] = {}
        with contextlib.ExitStack() as theirs:
            quiet = theirs.enter_context(open(os.devnull, "wb"))  # noqa: ASYNC230, PTH123
            fds = [quiet.fileno()]
            for session in about.sessions:
                reading, writing = os.pipe()
                reports[session.inner] = reading
                theirs.callback(os.close, writing)
                fds.append(writing)
            try:
                code = await self._spawner.bring_back({**message, **words}, fds)
                if code:
                    raise Refused(_why(code, log))
                first = await self._spawner.adopt(int(pid.read_text()))
                programs = kept.found(first.pid, reports)
            except BaseException as error:
                for fd in reports.values():
                    os.close(fd)
                if isinstance(error, OSError | ValueError):
                    raise Refused(f"what was brought back has ended: {error}") from error
                raise
        inside = {"sandbox": first.number, "first": first.pid, "deputy": 0}
        await self._spawner.loopback(inside)
        log.unlink(missing_ok=True)
        sessions = []
        for session in about.sessions:
            program = programs[session.inner]
            try:
                sessions.append(Live(past=session, program=program, terminal=program.terminal()))
            except OSError as error:
                program.close()
                raise Refused(f"the terminal of session {session.id} is gone: {error.strerror}") from error
        return Back(first=first, sessions=tuple(sessions))


def _why(code: int, log: Path) -> str:
    return "CRIU did not end in time" if code < 0 else criu.complaint(log)
