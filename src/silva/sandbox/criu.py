"""Snapshots of processes, by CRIU: what is running in a sandbox is written to files, and runs on from them, often.

    program ─▶ trial (a throw-away process, written down and brought back) ─▶ "" or why it does not work here
    written(process 1) ─▶ CRIU's words to write it down        back(Images) ─▶ its words to bring it back

A sandbox of `Spec.processes` is made so that CRIU can take it: one namespace of users, in which root is somebody, and
every program below process 1 (`silva.sandbox.kept`). What its mounts show of this machine is not written down but named
(`mnt[KEY]`) and given again at the restore, over the files of whichever branch it is; the network is a new one. The
folder of a snapshot:

    *.img           CRIU's
    silva.json      `About`: the mounts, the sessions

Checked against CRIU 4.2 on Linux 6.18; 3.17 fails there, 4.1 breaks desktops.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import msgspec

from silva.errors import StoreError
from silva.sandbox import system
from silva.sandbox.protocol import WORKSPACE, Spec
from silva.sandbox.session import Past
from silva.tree import Record

ABOUT = "silva.json"
CACHE = "criu.kdat"
LOG = "criu.log"
PIPES = 20
"""The first descriptor of a pipe that a restored process is given."""
_GHOSTS = "200M"
_OWN = ("proc", "devpts", "tmpfs", "mqueue")
"""Mounts that are written down, or made anew, as part of the sandbox."""
_WRITTEN = {WORKSPACE: "/sys/workspace", "/home/agent": "/sys/rest/home", "/tmp": "/sys/rest/tmp"}
_WRITTEN |= {"/var/tmp": "/sys/rest/var"}
_CAP_SYS_RESOURCE = 24


class About(Record, frozen=True, kw_only=True):
    """What a process snapshot needs besides CRIU's own files.

    Attributes:
        mounts: where something of this machine stands inside.
        folders: which of these, and of the sandbox's own mounts, are folders.
        sessions: the sessions that live in it.
    """

    mounts: tuple[str, ...]
    folders: tuple[str, ...]
    sessions: tuple[Past, ...] = ()


def program() -> str:
    """Where CRIU is: `$SILVA_CRIU`, else on the path; "" for nowhere."""
    given = os.environ.get("SILVA_CRIU", "")
    return given if given else shutil.which("criu") or ""


def hook() -> str:
    """The script that copies the files while CRIU holds the processes still."""
    return str(Path(__file__).parent / "forkserver" / "copy_files.sh")


def mounted(first: int) -> About:
    """What of this machine stands where in a sandbox, by its process 1. Raises OSError."""
    mounts, folders = [], []
    for line in Path(f"/proc/{first}/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        path, kind = before.split(" ")[4], after.split(" ")[0]
        if path == "/":
            continue
        if kind not in _OWN or path in _WRITTEN:
            mounts.append(path)
        if Path(f"/proc/{first}/root{path}").is_dir():
            folders.append(path)
    return About(mounts=tuple(mounts), folders=tuple(folders))


def user(sandbox: int | None) -> int:
    """Whom CRIU is to seem: the sandbox's user where root lacks the right to ask for another's limits, else root."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:") and not int(line.split()[1], 16) >> _CAP_SYS_RESOURCE & 1:
            return sandbox or 0
    return 0


def written(first: int, about: About, folder: Path, top: Path, copy: Path, cache: Path, seen: int) -> dict[str, Any]:
    """The fork server's words to write down all below process 1, and copy `top` to `copy` while they are held still.

    Args:
        first: process 1, as seen here.
        about: its mounts.
        folder: where to; it exists.
        top: the files.
        copy: where they are to be; it must not exist.
        cache: where what CRIU knows of the kernel is kept.
        seen: whom it is to seem.
    """
    words = [
        "criu",
        "dump",
        "-t",
        str(first),
        "-D",
        str(folder),
        "-o",
        LOG,
        "--leave-running",
        "--network-lock",
        "skip",
    ]
    words += ["--link-remap", "--ghost-limit", _GHOSTS, "--action-script", hook(), *_COMMON]
    for path in about.mounts:
        words += ["--external", f"mnt[{path}]:{_key(path)}"]
    for path in _WRITTEN:  # a watched file of an overlay has no handle: it is looked for by its number
        words += ["--irmap-scan-path", path]
    variables = {"PATH": _PATH, "SILVA_TOP": str(top), "SILVA_COPY": str(copy)}
    return {"program": program(), "arguments": words, "variables": variables, "cache": str(cache), "as": seen}


def back(
    about: About, spec: Spec, folder: Path, pid: Path, log: Path, cache: Path, seen: int, prepared: Path
) -> dict[str, Any]:
    """The fork server's words to bring back what was written down in `folder`; process 1's id is written to `pid`.

    Raises:
        StoreError: something that it had is not there now.
    """
    binds, _ = system.arguments(prepared, spec, 0)
    sources = _WRITTEN | system.sources(spec)
    words = ["criu", "restore", "-D", str(folder), "-W", str(log.parent), "-o", log.name, "-d", "-S"]
    words += ["--pidfile", str(pid), "--root", "/sys/root", *_COMMON]
    for path in about.mounts:
        words += ["--external", f"mnt[{_key(path)}]:{_source(path, sources)}"]
    for number, session in enumerate(about.sessions):
        words += ["--inherit-fd", f"fd[{PIPES + number}]:pipe:[{session.pipe}]"]
    places = [path for path in about.folders if not path.startswith("/dev/")]
    files = [path for path in about.mounts if path not in about.folders and not path.startswith("/dev/")]
    return {
        "program": program(),
        "arguments": words,
        "variables": {"PATH": _PATH},
        "cache": str(cache),
        "as": seen,
        "binds": binds,
        "places": [*places, "/run", "/var"],
        "files": files,
        "links": system.links(),
    }


def keep(folder: Path, about: About) -> None:
    """Write down what belongs to CRIU's files. Raises OSError."""
    (folder / ABOUT).write_bytes(msgspec.json.encode(about))


def read(folder: Path) -> About:
    """What belongs to CRIU's files.

    Raises:
        StoreError: it cannot be read.
    """
    try:
        return msgspec.json.decode((folder / ABOUT).read_bytes(), type=About)
    except (OSError, msgspec.DecodeError) as error:
        raise StoreError(f"the processes in {folder} cannot be brought back: {error}") from error


def complaint(log: Path) -> str:
    """Why it failed: the first line of its log that says so."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return "it did not start"
    wrong = [line.partition("): ")[2] for line in lines if "Error (" in line and "RLIMIT_NOFILE" not in line]
    return wrong[0] if wrong else (lines or ["it said nothing"])[-1]


def _key(path: str) -> str:
    return path.strip("/").replace("/", "-")


def _source(path: str, sources: dict[str, str]) -> str:
    for place in sorted(sources, key=len, reverse=True):
        if path == place or path.startswith(f"{place}/"):
            return sources[place] + path[len(place) :]
    return path  # of the machine: the same here as there


_COMMON = ("--manage-cgroups=ignore", "--empty-ns", "net", "--tcp-established", "--file-locks", "-v1")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
