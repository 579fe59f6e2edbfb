"""`silva sandbox shell`: a shell in a sandbox, under one's own fingers or from a pipe.

    a terminal here   keys, Ctrl-C among them ─▶ a terminal inside ─▶ shell; its size follows the window's
    a pipe here       lines ─▶ shell, no terminal; what it prints comes at once, errors apart

The shell's exit code is the command's. Limits and network are those of `silva sandbox run`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from silva.cli import sandbox_options as option
from silva.cli.sandbox_options import Which

if TYPE_CHECKING:
    from silva.sandbox.held import HeldSandbox
    from silva.sandbox.protocol import Spec
    from silva.sandbox.session import Session

_ALWAYS = 10 * 365 * 86400.0
_PIPED = "if command -v bash >/dev/null; then exec bash -s; else exec sh -s; fi"


def shell(
    place: Annotated[
        str, typer.Argument(help="A folder whose contents stand in /workspace at first; for containers the image.")
    ] = "",
    backend: option.Chosen = Which.namespaces,
    memory: option.Memory = "512M",
    processes: option.Processes = 128,
    cpus: option.Cpus = 1.0,
    disk: option.Disk = "1G",
    timeout: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds it may take; no limit when left out.", show_default=False)
    ] = None,
    mount: option.Mount = None,
    allow: option.Allow = None,
    variable: option.Variable = None,
    get: option.Get = None,
    snapshots: option.Snapshots = None,
    at: option.From = "",
    keep: option.Keep = None,
    state: option.State = None,
) -> int:
    """Open a shell in a new sandbox; it and its files go with the shell. Exit code: the shell's, 6 when out of time."""
    from silva.errors import UsageError

    if place and at and backend is not Which.container:
        raise UsageError("a folder and --from: a checkpoint has its files already; leave one out")
    spec = option.spec_of(
        memory=memory,
        processes=processes,
        cpus=cpus,
        disk=disk,
        wall=timeout or _ALWAYS,
        files=Path(place) if place and backend is not Which.container else None,
        mount=mount,
        allow=allow,
        variable=variable,
        image=place if backend is Which.container else "",
    )
    folder = option.kept_in(snapshots, at, keep, backend)
    out = [option.pair(each, "--get", "THERE:HERE") for each in get or ()]
    try:
        return asyncio.run(_shell(backend, spec, state, folder, at, keep, out))
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM


async def _shell(
    which: Which,
    spec: Spec,
    state: Path | None,
    snapshots: Path | None,
    at: str,
    keep: str | None,
    out: list[tuple[str, str]],
) -> int:
    from silva.sandbox import open_backend

    task = asyncio.current_task()
    assert task is not None
    # The terminal here, and what is inside, must not be left as they are.
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    async with (
        await open_backend(which.value, state=state, snapshots=snapshots) as backend,
        await backend.create(spec, at=at) as sandbox,
    ):
        held: Any = sandbox
        code = await (_on_terminal(held) if os.isatty(0) else _on_pipes(held))
        if keep is not None:
            sys.stderr.write(f"checkpoint {await sandbox.checkpoint(keep)}\n")
        for there, here in out:
            fetched = await sandbox.get_folder(there, Path(here))
            for line in fetched.left_out:
                sys.stderr.write(f"left out: {line}\n")
    return code


async def _on_terminal(sandbox: HeldSandbox) -> int:
    size = os.get_terminal_size(0)
    session = await sandbox.session(
        rows=size.lines, columns=size.columns, variables={"TERM": os.environ.get("TERM", "xterm-256color")}
    )
    loop = asyncio.get_running_loop()
    keys: asyncio.Queue[bytes] = asyncio.Queue()

    def resized() -> None:
        now = os.get_terminal_size(0)
        session.resize(now.lines, now.columns)

    def pressed() -> None:
        data = os.read(0, 4096)
        if not data:  # the terminal here is gone
            loop.remove_reader(0)
        keys.put_nowait(data or b"\x04")

    with _raw():
        loop.add_signal_handler(signal.SIGWINCH, resized)
        loop.add_reader(0, pressed)
        typing, showing = asyncio.create_task(_type(session, keys)), asyncio.create_task(_show(session))
        try:
            in_time = await session.ended(sandbox.limits.wall)
            await asyncio.wait({showing}, timeout=0.3)  # what it printed last
        finally:
            loop.remove_reader(0)
            loop.remove_signal_handler(signal.SIGWINCH)
            for task in (typing, showing):
                task.cancel()
            await asyncio.gather(typing, showing, return_exceptions=True)
    code = await session.kill()
    return _concluded(code, "" if in_time else f"killed: it took longer than {sandbox.limits.wall:g} s", sandbox)


async def _type(session: Session, keys: asyncio.Queue[bytes]) -> None:
    from silva.errors import UsageError

    while True:
        data = await keys.get()
        with contextlib.suppress(UsageError):  # the shell has just ended
            await session.send(data)


async def _show(session: Session) -> None:
    position = 0
    screen = _Through(1, session.close)
    while True:
        data, position = await session.more(position)
        if not data:
            return
        screen.write(data)


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """The terminal here passes every key on, and is as it was afterwards."""
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0, termios.TCSADRAIN)  # what was typed already counts
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


async def _on_pipes(sandbox: HeldSandbox) -> int:
    reading, writing = os.pipe()
    # A pipe of our own: what stands behind ours may be a file of this machine, which nothing inside may have open.
    threading.Thread(target=_pass_on, args=(0, writing), daemon=True).start()
    task = asyncio.current_task()
    assert task is not None
    out, errors = _Through(1, task.cancel), _Through(2, task.cancel)
    streams: dict[str, Any] = {"out": out, "errors": errors}
    with os.fdopen(reading, "rb", buffering=0) as stdin:
        try:
            result = await sandbox.stream(["sh", "-c", _PIPED], stdin=stdin, **streams)
        except asyncio.CancelledError:
            if not (out.broken or errors.broken):
                raise
            task.uncancel()
            return 128 + signal.SIGPIPE
    return _concluded(result.code, result.reason, sandbox)


def _pass_on(source: int, target: int) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(target, "wb", buffering=0) as pipe:
        while data := os.read(source, 1 << 16):
            _written(pipe, data)


class _Through:
    """A descriptor that takes all it is given, now; when nobody reads it any more, `end` is called."""

    def __init__(self, fd: int, end: Callable[[], Any]) -> None:
        self._fd = fd
        self._end = end
        self.broken = False

    def write(self, data: bytes) -> None:
        """Write all of it."""
        rest = memoryview(data)
        try:
            while rest and not self.broken:
                rest = rest[os.write(self._fd, rest) :]
        except BrokenPipeError:
            self.broken = True
            self._end()


def _written(pipe: IO[bytes], data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[pipe.write(rest) or 0 :]


def _concluded(code: int, reason: str, sandbox: HeldSandbox) -> int:
    from silva.errors import Exit

    why = reason or (sandbox.interrupted if code < 0 else "")
    if why:
        sys.stderr.write(f"{why}\n")
    return Exit.INCOMPLETE if why.startswith("killed") else 128 - code if code < 0 else code
