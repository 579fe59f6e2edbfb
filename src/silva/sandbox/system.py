"""What of this machine a sandbox of namespaces is made of, and whether it can be made at all.

prepare ─▶ an /etc of its own, once for each owner        arguments ─▶ bubblewrap's words for one sandbox
probe   ─▶ a trial sandbox, made as the real ones are ─▶ what there is, or one line on what is missing
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from silva.errors import MissingError, UsageError
from silva.sandbox.protocol import WORKSPACE, Spec
from silva.sandbox.seccomp import filter_program
from silva.tree import Record

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "bash.bashrc",
    "fonts",
    "inputrc",
    "java-17-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "magic",
    "magic.mime",
    "mime.types",
    "os-release",
    "pki/tls/certs",
    "profile",
    "protocols",
    "python3",
    "python3.11",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)
"""What of /etc programs need to run. Passwords, keys, the machine's name and its users are not among it."""
_RESERVED = ("/proc", "/dev", "/etc", "/tmp", "/var/tmp", "/run", WORKSPACE, "/home/agent", "/", *_SYSTEM)
_SHARED_MEMORY = 64 << 20
_LAID = "usr"


class Reached(Record, frozen=True, kw_only=True):
    """What a trial showed. `problem`: one line, when sandboxes cannot be made at all."""

    overlay: bool = False
    problem: str = ""
    notes: tuple[str, ...] = ()


def bubblewrap() -> str:
    """Where bubblewrap is, as an absolute path.

    Raises:
        MissingError: nowhere.
    """
    found = shutil.which("bwrap")
    if found is None:
        raise MissingError("sandboxes of namespaces need bubblewrap: install it (Debian: apt-get install bubblewrap)")
    return found


def checked(spec: Spec) -> None:
    """Look at what a spec asks of this machine.

    Raises:
        UsageError: a folder is missing, or a mount would hide what a sandbox needs.
    """
    if spec.files is not None and not spec.files.is_dir():
        raise UsageError(f"files: there is no folder {spec.files}")
    for here, there in (*spec.mounts.items(), *spec.writable.items()):
        if not here.exists():
            raise UsageError(f"mounts: there is no {here}")
        place = os.path.normpath(there)
        free = place == WORKSPACE and here in spec.writable
        if not there.startswith("/") or (place in _RESERVED and not free):
            raise UsageError(f"mounts: {there!r} cannot be where {here} stands: give an absolute path of its own")
    if spec.system is not None and not (spec.system / "usr").is_dir():
        raise UsageError(f"system: there is no folder {spec.system / 'usr'}")
    if spec.host_network and (spec.network or spec.doors):
        raise UsageError("network: with this machine's own there is no list of hosts, and no door is needed")


def prepare(folder: Path) -> None:
    """Write the /etc that sandboxes see. Raises OSError."""
    folder.mkdir(mode=0o755)
    etc = folder / "etc"
    etc.mkdir(mode=0o755)
    found = [f"./{name}" for name in _ETC if os.path.lexists(f"/etc/{name}")]
    # Links are kept: most lead into /usr, which is there.
    subprocess.run(["cp", "-r", "--parents", "-P", *found, str(etc)], cwd="/etc", capture_output=True, check=False)
    texts = {
        "passwd": "agent:x:1000:1000::/home/agent:/bin/bash\nnobody:x:65534:65534::/nonexistent:/bin/false\n",
        "group": "agent:x:1000:\nnogroup:x:65534:\n",
        "hosts": "127.0.0.1 localhost silva\n::1 localhost\n",
        "hostname": "silva\n",
        "host.conf": "multi on\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
        "resolv.conf": "",
    }
    for name, text in texts.items():
        (etc / name).write_text(text)
        (etc / name).chmod(0o644)
    for place, folders, _ in os.walk(etc):
        for name in folders:
            path = Path(place, name)
            if not path.is_symlink():
                path.chmod(0o755)


def arguments(prepared: Path, spec: Spec, user: int, *, users: bool = False) -> tuple[list[str], list[str]]:
    """What the fork server is to mount by name (it may lie where the sandbox's user may not look), and bubblewrap's
    words, without the program. `users`: the fork server gives it a namespace of users, as descriptor 5."""
    binds = [str(prepared / "etc")]
    words = [
        "bwrap",
        *(("--userns", "5") if users else ("--unshare-user",)),
        *("--uid", str(user), "--gid", str(user)),
        *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *(() if spec.host_network else ("--unshare-net",)),
        *("--hostname", "silva", "--die-with-parent", "--as-pid-1", "--new-session"),
        *("--info-fd", "3", "--seccomp", "4"),
    ]
    words += _system()
    if spec.system is not None:
        words += ["--ro-bind", f"/sys/{_LAID}", "/usr"]
    words += ["--ro-bind", "/sys/b0", "/etc", "--proc", "/proc", "--dev", "/dev"]
    words += ["--perms", "1777", "--size", str(_SHARED_MEMORY), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    words += ["--dir", "/run", "--dir", "/var"]
    words += ["--bind", "/sys/rest/home", "/home/agent", "--bind", "/sys/rest/tmp", "/tmp"]
    words += ["--bind", "/sys/rest/var", "/var/tmp", "--bind", "/sys/workspace", WORKSPACE]
    for kind, here, there in mounted(spec):
        binds.append(str(here.absolute()))
        _place_for(prepared, here, os.path.normpath(there))
        words += [kind, f"/sys/b{len(binds) - 1}", os.path.normpath(there)]
    return binds, [*words, "--chdir", WORKSPACE, "--remount-ro", "/"]


def laid(spec: Spec) -> list[dict[str, Any]]:
    """What of the system is put together for a spec, for the fork server: /usr with more on top of it, to be read."""
    if spec.system is None:
        return []
    return [{"name": _LAID, "folder": "/", "lower": [str(spec.system.absolute() / "usr"), "/usr"]}]


def sources(spec: Spec) -> dict[str, str]:
    """Where what is mounted for a spec is put together, by its place."""
    found = {"/etc": "/sys/b0", **({} if spec.system is None else {"/usr": f"/sys/{_LAID}"})}
    return found | {os.path.normpath(there): f"/sys/b{n}" for n, (_, _, there) in enumerate(mounted(spec), 1)}


def mounted(spec: Spec) -> list[tuple[str, Path, str]]:
    """What of this machine is mounted for a spec, by bubblewrap's word for how; what lies in another comes after it.
    With this machine's network it reads who has which name in that."""
    names = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf") if spec.host_network else ()
    read = [*spec.mounts.items(), *((Path(name), name) for name in names if Path(name).exists())]
    found = [("--bind", *each) for each in spec.writable.items()] + [("--ro-bind", *each) for each in read]
    return sorted(found, key=lambda each: os.path.normpath(each[2]))


def lent(binds: list[str], spec: Spec) -> list[int]:
    """Which of what is mounted is lent by the caller: only to be read, and by its borrower as by the caller."""
    written = {str(here.absolute()) for here in spec.writable}
    return [number for number, path in enumerate(binds) if number and path not in written]


def _place_for(prepared: Path, here: Path, there: str) -> None:
    """/etc is mounted read-only before: what is mounted below it needs a place there."""
    if not there.startswith("/etc/"):
        return
    place = prepared / "etc" / there.removeprefix("/etc/")
    if here.is_dir():
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif not place.exists():
        place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        place.touch(mode=0o644)


def links() -> list[tuple[str, str]]:
    """The system's folders that are links here, and so are there: from, to."""
    return [(str(path), str(path.readlink())) for path in map(Path, _SYSTEM) if path.is_symlink()]


@functools.cache
def _system() -> tuple[str, ...]:
    words: list[str] = []
    for place in map(Path, _SYSTEM):
        if place.is_symlink():
            words += ["--symlink", str(place.readlink()), str(place)]
        elif place.exists():
            words += ["--ro-bind", str(place), str(place)]
    return tuple(words)


@functools.cache
def probe(folder: Path | None = None) -> Reached:
    """Make a sandbox for trial. Cached: a machine does not change under a running program.

    Args:
        folder: where sandboxes are to be kept, for not every file system takes overlays; that for temporary files when
            left out.
    """
    try:
        program = bubblewrap()
        filter_program()
    except MissingError as error:
        return Reached(problem=str(error))
    with tempfile.TemporaryDirectory(prefix="silva-trial-", dir=folder) as scratch:
        said = _trial(Path(scratch), program, overlay=True)
        if not said:
            return Reached(overlay=True)
        without = _trial(Path(scratch), program, overlay=False)
    if not without:
        note = f"no overlays here ({said}): files are kept by copying, which takes longer the more there are"
        return Reached(overlay=False, notes=(note,))
    return Reached(problem=f"sandboxes of namespaces cannot be made here: {without}. {_advice()}")


def _trial(scratch: Path, program: str, *, overlay: bool) -> str:
    """What goes wrong with a sandbox made as the real ones are; "" when nothing does."""
    folder = scratch / ("with" if overlay else "without")
    for name in ("lower", "upper", "work", "rest/home", "rest/tmp", "rest/var", "workspace"):
        (folder / name).mkdir(parents=True)
    for path in (scratch, folder, *folder.rglob("*")):
        path.chmod(0o755)
    prepare(folder / "etc")
    binds, words = arguments(folder / "etc", Spec(), 1000)
    place = {"name": "workspace", "folder": str(folder), "lower": ["lower"], "upper": "upper", "work": "work"}
    message: dict[str, Any] = {
        "groups": [],
        "user": 65533 if os.geteuid() == 0 else None,
        "overlays": [place] if overlay else [],
        "folders": [["rest", str(folder / "rest")]] + ([] if overlay else [["workspace", str(folder / "workspace")]]),
        "binds": binds,
        "program": program,
        "arguments": [*words, "/bin/sh", "-c", "echo ready"],
    }
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as said:
        filtering = os.memfd_create("filter")
        os.write(filtering, filter_program())
        script = (
            "import json, sys; sys.path.insert(0, sys.argv[1]); from forkserver.children import make;"
            "make(json.loads(sys.argv[2]), [int(sys.argv[3])], int(sys.argv[4]))"
        )
        command = [sys.executable, "-I", "-S", "-c", script, str(Path(__file__).parent), json.dumps(message)]
        tried = subprocess.Popen(
            [*command, str(writing), str(filtering)], pass_fds=[writing, filtering], stderr=subprocess.PIPE
        )
        os.close(writing)
        os.close(filtering)
        heard = said.read().decode(errors="replace")
        complaint = tried.communicate()[1].decode(errors="replace")
    if heard.endswith("ready\n"):
        return ""
    lines = [line for line in (heard + complaint).splitlines() if line.strip() and line[0] not in '{} "']
    return lines[-1].removeprefix("silva: ") if lines else f"exit code {tried.returncode}"


def _advice() -> str:
    places = {
        "/proc/sys/kernel/unprivileged_userns_clone": "0",
        "/proc/sys/user/max_user_namespaces": "0",
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1",
    }
    for place, closed in places.items():
        path = Path(place)
        if path.exists() and path.read_text().strip() == closed:
            name = place.removeprefix("/proc/sys/").replace("/", ".")
            return f"This machine keeps namespaces from ordinary users ({name} is {closed}): have it changed"
    return "In a container, it must be started with the right to make namespaces and to mount /proc"
