"""Podman or docker, spoken to by its command line: which one answers here, what it truly holds, and where a container's
processes are counted.

    find ─▶ ENGINE info ─▶ Engine(name, what it bounds, whose rights it has) ─▶ run, seen

Of two that answer podman is taken, for it needs no service that has root's rights; `$SILVA_CONTAINER_ENGINE` says
otherwise.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from silva.errors import MissingError, UsageError
from silva.sandbox.cgroup import Group
from silva.tree import Record

ENGINES = ("podman", "docker")
OWNER = "silva-owner"
"""The label of an image that is to go with the backend that made it."""

_SECONDS = 120
_OURS = ("CONTAINER", "DOCKER_", "PODMAN_", "XDG_", "TMPDIR", "HOME", "PATH", "DBUS_SESSION_BUS_ADDRESS")
BOUNDED = frozenset(("memory", "processes", "cpus"))


@dataclass(frozen=True)
class Seen:
    """Where a container's processes are: their pid namespace ("" where it cannot be seen), and what counts them."""

    namespace: str = ""
    group: Group = field(default_factory=lambda: Group({}))


class Engine(Record, frozen=True, kw_only=True):
    """A container engine that answers.

    Attributes:
        name: its program.
        rootless: whether its containers have no more than this user's rights, also for who gets out of one.
        seccomp: whether it refuses calls of the kernel that help to leave.
        bounds: which of memory, processes and cpus it can hold a container to.
        pauses: whether it can hold a container still while a checkpoint is taken.
    """

    name: str
    rootless: bool
    seccomp: bool
    bounds: frozenset[str]
    pauses: bool

    def run(self, *words: str, folder: Path | None = None) -> str:
        """What a command of it prints. A folder to run in is to be given for `run`: podman leaves a file there when
        a container's memory runs out.

        Raises:
            MissingError: it refuses, with its last line.
        """
        return said(self.name, *words, folder=folder)

    def variables(self) -> dict[str, str]:
        """What of this process's environment its command line needs."""
        return {name: value for name, value in os.environ.items() if name.startswith(_OURS)}

    def seen(self, container: str) -> Seen:
        """A container's processes as this machine sees them; nothing where they are not on it. Raises MissingError."""
        try:
            pid = int(self.run("inspect", "--format", "{{.State.Pid}}", container))
            namespace = os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115 - no file stands behind it
        except (ValueError, OSError):
            return Seen()
        if namespace == os.readlink("/proc/self/ns/pid"):  # noqa: PTH115
            namespace = ""  # the engine's settings share this machine's: its processes are not all the container's
        # Without groups of its own a container is in the user's, with everything else of theirs.
        return Seen(namespace=namespace, group=Group.of(pid) if self.bounds else Group({}))


def remove_images(engine: str, owner: str) -> None:
    """Remove the checkpoints that a backend made for as long as it is open. Raises MissingError."""
    ids = dict.fromkeys(said(engine, "images", "--quiet", "--filter", f"label={OWNER}={owner}").split())
    if ids:
        said(engine, "rmi", "--force", *ids)


def find(asked: str = "") -> Engine:
    """The engine that answers: the asked one, else that of the environment, else the first of `ENGINES`.

    Raises:
        MissingError: there is none, or it does not answer; it says what to do.
        UsageError: the environment names another program.
    """
    asked = asked or os.environ.get("SILVA_CONTAINER_ENGINE", "")
    if asked and asked not in ENGINES:
        raise UsageError(f"SILVA_CONTAINER_ENGINE is {asked!r}: it can be {' or '.join(ENGINES)}")
    here = [name for name in ((asked,) if asked else ENGINES) if shutil.which(name)]
    if not here:
        raise MissingError(f"sandboxes by containers need {asked or 'podman or docker'}: install it, or use namespaces")
    wrong = ""
    for name in here:
        try:
            return _told(name, json.loads(said(name, "info", "--format", "{{json .}}")))
        except MissingError as error:
            wrong = wrong or str(error)
        except ValueError:
            wrong = wrong or f"{name} info gives no JSON: it is too old"
    raise MissingError(f"sandboxes by containers cannot be had here: {wrong}")


def _told(name: str, info: dict[str, Any]) -> Engine:
    if "host" in info:
        host, security = info["host"], info["host"].get("security", {})
        there = set(host.get("cgroupControllers") or ())
        if security.get("rootless") and host.get("cgroupVersion") == "v1":
            there = set()  # nobody delegates groups of version 1 to users
        bounds = {"memory": "memory" in there, "processes": "pids" in there, "cpus": "cpu" in there}
        rootless, seccomp = bool(security.get("rootless")), bool(security.get("seccompEnabled"))
        pauses = not (rootless and host.get("cgroupVersion") == "v1")
    else:
        options = [str(each) for each in info.get("SecurityOptions") or ()]
        bounds = {
            "memory": info.get("MemoryLimit"),
            "processes": info.get("PidsLimit"),
            "cpus": info.get("CPUCfsQuota"),
        }
        if "CPUCfsQuota" not in info:
            bounds["cpus"] = info.get("CpuCfsQuota")
        rootless = any("rootless" in each for each in options)
        pauses = not (rootless and str(info.get("CgroupVersion")) == "1")
        seccomp = any("seccomp" in each and "unconfined" not in each for each in options)
    held = frozenset(what for what in BOUNDED if bounds[what])
    return Engine(name=name, rootless=rootless, seccomp=seccomp, bounds=held, pauses=pauses)


def said(engine: str, *words: str, folder: Path | None = None) -> str:
    """What a command of an engine prints, run in a folder.

    Raises:
        MissingError: it refuses, with its last line; or cannot be started.
    """
    try:
        done = subprocess.run(
            [engine, *words],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=folder,
        )
    except subprocess.TimeoutExpired:
        raise MissingError(f"{engine} {words[0]} did not answer within {_SECONDS} s") from None
    except OSError as error:
        raise MissingError(f"{engine} cannot be started: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise MissingError(f"{engine} {words[0]}: {lines[-1]}")
    return done.stdout
