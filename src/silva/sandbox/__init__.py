"""Where programs run that Silva did not write.

    open_backend("namespaces" | "process" | "container") ─▶ Backend.create(Spec) ─▶ Sandbox
        exec · session · put · get · checkpoint · restore · fork · destroy · capabilities

One noun a file:

    protocol      Sandbox, Backend, Spec: the one interface          limits, result, capabilities   its records
    namespaces    the default: bubblewrap, overlays, no root         namespace  one such sandbox
    process       no isolation; asked for by name                    held     what the backends share: exec, put, get
    container, container_engine  podman or docker, where they are    session  a terminal one talks with
    forkserver/   a small program that starts everything, and        spawner  the owner's side of it
                  cleans up when its owner is killed                 slots    control groups made in advance
    system        what of the machine is inside; the probe           seccomp  which calls of the kernel are refused
    files, layers, contents   what a sandbox writes, and checkpoints: overlay layers, or by content
    sharing, garbage   several processes at one folder of checkpoints; removing those that nobody refers to
    cgroup, watch   limits: held by the kernel, or looked after      ground   what a sandbox uses of its backend
    ways, proxy     the ways out: an allow-list of hosts             listener, room  connections, and how many
    creation      what the fork server is told to make
    walk, nameless  what lies below a folder, however deep; files that have no name any more
    archive       files in and out, nothing that comes out believed  output   reading with a bound
    criu, frozen    snapshots of processes: CRIU's words, and having it done      criu_trial, criu_tried  does it work
    connections     those that lead out, which no snapshot holds
    kept, first     what a process snapshot can take: below process 1              blanks      folders made in advance
    owner, reaper   whose everything is; removing what was left      pool     admission, some ready in advance
    judge, judging  what the judged wrote runs where it reaches neither the tests nor the verdict
    door          a port of this machine that a sandbox may reach

A sandbox lives no longer than its owner: the process that opened the backend. Checkpoints do, where a folder for them
is given.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from silva.errors import UsageError

if TYPE_CHECKING:
    from silva.sandbox.protocol import Backend

BACKENDS = ("namespaces", "container", "process")


async def open_backend(
    name: str = "namespaces", *, state: Path | None = None, snapshots: Path | None = None
) -> Backend:
    """Open a backend; close it, or use it as `async with`.

    Args:
        name: one of `BACKENDS`.
        state: where sandboxes are kept; the user's state folder when left out.
        snapshots: where checkpoints are kept for good; they go with the backend when left out. Containers keep theirs
            in the engine's own store, for good where any folder is named.

    Raises:
        UsageError: there is no such backend.
        MissingError: it cannot be had here; the message says what to do. No other is taken in its place.
    """
    if name == "namespaces":
        from silva.sandbox.namespaces import Namespaces

        return await Namespaces.open(state=state, snapshots=snapshots)
    if name == "process":
        from silva.sandbox.process import Processes

        return await Processes.open(state=state, snapshots=snapshots)
    if name == "container":
        from silva.sandbox.container import Containers

        return await Containers.open(state=state, durable=snapshots is not None)
    raise UsageError(f"sandbox backend {name!r} is not known; possible are {', '.join(BACKENDS)}")


__all__ = ["BACKENDS", "open_backend"]
