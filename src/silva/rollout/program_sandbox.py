"""The sandbox of an agent that is a program: the same as of everything else that nobody has read, with two things more.

    program ─▶ Spec: its folder, to write · its installation, to read · the gateway's door ─▶ sandbox ─▶ Result

Nothing of the machine is in it but the system's programs, what the program is installed in and what `program.mounts`
names; of networks only the way to its model, unless `program.network` names more.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from silva.errors import SilvaError, UsageError
from silva.rollout.config import ProgramConfig
from silva.sandbox.limits import Limits, size
from silva.sandbox.protocol import WORKSPACE, Sandbox, Spec
from silva.sandbox.result import Result
from silva.sandbox.spawner import SandboxGone
from silva.tree import Boundary, Failure

_THERE = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_BINARIES = ("bin", "shims", ".bin", "sbin")
_MOST_SECONDS = 7 * 24 * 3600.0
_OUTPUT = 2 << 20
_FLOOD = 1 << 40
_SHORT = ("Resource temporarily unavailable", "Too many open files", "Cannot allocate memory")


class Unstartable(Exception):
    """A program that could not be started; `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def found(command: str) -> Path:
    """Where a program is.

    Raises:
        UsageError: nowhere.
    """
    place = shutil.which(command)
    if place is None:
        raise UsageError(f"there is no program {command!r}: give its path, or install it")
    return Path(place).absolute()  # it starts in another folder


def seen(folder: Path, backend: str) -> str:
    """The path of a program's folder as the program sees it: always the same in namespaces, so that what programs tell
    their models of it does not differ from one episode to the next."""
    return WORKSPACE if backend == "namespaces" else str(folder)


def spec_of(settings: ProgramConfig, program: Path, folder: Path, door: int) -> Spec:
    """What the sandbox of one start of a program is to be.

    Args:
        settings: the run's.
        program: where it is.
        folder: what it works on.
        door: the port of the gateway on this machine's loopback.
    """
    limits = Limits(
        memory=size(settings.memory),
        disk=size(settings.disk),
        processes=settings.processes,
        cpus=float(os.cpu_count() or 1),
        wall=_MOST_SECONDS,
        output=_OUTPUT,
        flood=_FLOOD,
        open_files=1 << 16,
    )
    if settings.sandbox == "process":  # it reaches everything
        return Spec(limits=limits, writable={folder: WORKSPACE})
    host = settings.network == "host"
    hosts = settings.network if isinstance(settings.network, tuple) else ()
    return Spec(
        limits=limits,
        writable={folder: WORKSPACE},
        mounts={place: str(place) for place in readable(program, settings.mounts)},
        network=hosts,
        doors=() if host else (door,),
        host_network=host,
    )


async def executed(sandbox: Sandbox, words: list[str], given: str, variables: dict[str, str]) -> Result:
    """Run a program to its end.

    Args:
        sandbox: where.
        words: the program and its arguments.
        given: what it finds on standard input.
        variables: its environment.

    Raises:
        Unstartable: it, or what it was given, cannot be executed.
    """
    try:
        done = await sandbox.exec(words, stdin=given.encode(), variables=variables)
    except (UsageError, UnicodeEncodeError) as error:
        raise _unstartable(words[0], str(error)) from error
    except SandboxGone:
        raise
    except SilvaError as error:
        raise _short(words[0], str(error)) from error
    said = done.stderr.decode(errors="replace")
    if done.code in (126, 127) and said.startswith("silva: "):
        why = said.splitlines()[0].removeprefix("silva: ")
        raise _short(words[0], why) if why.startswith(_SHORT) else _unstartable(words[0], why)
    return done


def _short(program: str, why: str) -> Unstartable:
    what = f"the program {Path(program).name} cannot be started now: {why}"
    return Unstartable(
        Failure(boundary=Boundary.INFRASTRUCTURE, code="program.resources", message=what, retryable=True)
    )


def _unstartable(program: str, why: str) -> Unstartable:
    if "too long" in why:
        why = "its prompt is longer than an argument may be: leave {prompt} out of the command, then it is given on "
        why += "standard input"
    elif why.startswith("Exec format error"):
        why = "it is neither a binary of this machine nor a script that begins with #!"
    elif why.startswith(("No such file", "no such program")):
        why = "it, or the interpreter that it names, is not there: what it needs may stand in program.mounts"
    message = f"the program {Path(program).name} cannot be started: {why}"
    return Unstartable(Failure(boundary=Boundary.AGENT, code="agent.start", message=message))


def readable(program: Path, mounts: tuple[Path, ...]) -> list[Path]:
    """The folders a program is read from: its own installation (a virtual environment, and the interpreter behind it),
    the interpreter its first line names, this one, and what the caller adds; the system's are there already."""
    places = [place.absolute() for place in mounts] + [place.resolve() for place in mounts]
    for start in (program, _interpreter(program), Path(sys.executable)):
        if start is None:
            continue
        for path in (start.absolute(), start.resolve()):
            places.append(_installation(path))
        configuration = start.absolute().parent.parent / "pyvenv.cfg"
        if configuration.is_file():
            places += _base_interpreter(configuration)
    kept: list[Path] = []
    for place in sorted(dict.fromkeys(places), key=lambda each: len(each.parts)):
        covered = any(place.is_relative_to(known) for known in (*map(Path, _THERE), *kept))
        if not covered and place != Path("/") and place.exists():
            kept.append(place)
    return kept


def _installation(path: Path) -> Path:
    """The folder that a program stands in with what belongs to it; a home or a scratch folder is none, so that of such
    a place only the file itself can be read."""
    folder = path.parent.parent if path.parent.name in _BINARIES else path.parent
    return path if folder in (Path.home(), Path("/tmp"), Path("/var/tmp"), Path("/root"), Path("/")) else folder


def _interpreter(program: Path) -> Path | None:
    """What the first line of a script names, as a program of this machine."""
    try:
        with program.open("rb") as file:
            line = file.read(256).partition(b"\n")[0].decode(errors="replace")
    except OSError:
        return None
    words = line.removeprefix("#!").split() if line.startswith("#!") else []
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    place = shutil.which(words[0]) if words else None
    return Path(place) if place else None


def _base_interpreter(configuration: Path) -> list[Path]:
    for line in configuration.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "home":
            return [Path(value.strip()).parent]
    return []
