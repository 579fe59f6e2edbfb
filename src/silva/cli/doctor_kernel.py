"""What the kernel, and whoever runs Silva, let it do: each found out by trying, as the sandboxes themselves do.

kernel() ─▶ user, namespaces, seccomp, overlays, control groups, CRIU, KSM, loopback ─▶ lines
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

from silva.cli.doctor_finding import Finding, Whether, found

TOPIC = "sandboxes"
_WANTED = ("memory", "pids", "cpu")
_KSM = Path("/sys/kernel/mm/ksm/run")
_DELEGATE = "run as root, or below a delegated group: systemd-run --user --scope -p Delegate=yes silva …"


def kernel() -> Iterator[Finding]:
    """One line for each."""
    from silva.errors import MissingError
    from silva.sandbox import system
    from silva.sandbox.cgroup import Groups
    from silva.sandbox.criu_trial import trial
    from silva.sandbox.owner import state_folder
    from silva.sandbox.seccomp import filter_program

    root = os.geteuid() == 0
    who = "root: programs in sandboxes have nobody's rights" if root else f"an ordinary user ({os.geteuid()})"
    yield Finding(topic=TOPIC, name="user", whether=Whether.YES, said=who, purpose="whose rights sandboxes begin with")
    yield _program()
    state = state_folder()
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        reached = system.probe(state)
    except OSError as error:
        reached = system.Reached(problem=f"{state} cannot be written: {error.strerror}; set SILVA_SANDBOXES")
    good = not reached.problem
    said = "a sandbox was made for trial" if good else reached.problem
    yield found(TOPIC, "user namespaces", good, said, "isolation without root", "see the line itself")
    overlay = "their files are layers" if reached.overlay else "; ".join(reached.notes) or "no sandbox, no overlay"
    keep = "keep sandboxes on ext4, xfs, btrfs or tmpfs: SILVA_SANDBOXES=FOLDER"
    yield found(TOPIC, "overlay", reached.overlay, overlay, "quick checkpoints and branches", keep)
    try:
        filter_program()
        yield found(TOPIC, "seccomp", True, "a filter can be made", "refusing calls that help to leave", "")
    except MissingError as error:
        yield found(TOPIC, "seccomp", False, str(error), "refusing calls that help to leave", "use x86_64 or aarch64")
    yield _groups(Groups.find().resources)
    why = trial()
    fixed = "install CRIU 4.2 or newer (on the path, or SILVA_CRIU) and run as root: docs/guides/sandbox.md"
    yield found(TOPIC, "CRIU", not why, why or "a shell was written down and went on", "snapshots of what runs", fixed)
    yield _ksm()
    yield _loopback()


def _program() -> Finding:
    from silva.errors import MissingError
    from silva.sandbox import system

    try:
        where = system.bubblewrap()
    except MissingError:
        where = ""
    mend = "apt-get install bubblewrap"
    return found(TOPIC, "bubblewrap", bool(where), where or "not on the path", "every sandbox", mend)


def _groups(resources: frozenset[str]) -> Finding:
    purpose = "limits that the kernel holds"
    there = [name for name in _WANTED if name in resources]
    if len(there) == len(_WANTED):
        said = f"for {', '.join(sorted(resources))}"
        return Finding(topic=TOPIC, name="control groups", whether=Whether.YES, said=said, purpose=purpose)
    whether = Whether.PART if there else Whether.NO
    said = f"only for {', '.join(there)}" if there else "none may be made: memory is looked at, processors are not held"
    return Finding(topic=TOPIC, name="control groups", whether=whether, said=said, purpose=purpose, mend=_DELEGATE)


def _ksm() -> Finding:
    try:
        running = _KSM.read_text().strip() == "1"
        said = "on" if running else "in the kernel, off"
    except OSError:
        running, said = False, "not in this kernel"
    return found(TOPIC, "KSM", running, said, "equal pages of many desktops kept once", f"as root: echo 1 > {_KSM}")


def _loopback() -> Finding:
    purpose = "gateway, console, servers of models"
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            with socket.create_connection(("127.0.0.1", port), 5):
                return found(TOPIC, "loopback", True, f"port {port} was opened and reached", purpose, "")
    except OSError as error:
        return found(TOPIC, "loopback", False, str(error.strerror or error), purpose, "take up the interface lo")
