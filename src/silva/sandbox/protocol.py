"""The one interface: what a sandbox can do, whatever holds it in.

backend.create(Spec) ─▶ Sandbox ─▶ exec · session · put · get · checkpoint · restore · fork ─▶ destroy
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from silva.sandbox.capabilities import Capabilities
from silva.sandbox.limits import Limits
from silva.sandbox.result import Result
from silva.tree import Record

if TYPE_CHECKING:
    from silva.sandbox.archive import Fetched
    from silva.sandbox.session import Session

WORKSPACE = "/workspace"
"""Where a sandbox's programs start, and what they are to work on."""


class Spec(Record, frozen=True, kw_only=True):
    """What a sandbox is to be.

    Attributes:
        limits: what it may use.
        files: a folder whose contents stand in /workspace at first. It is read, never written; leave it unchanged while
            a sandbox rests on it. A snapshot that does is refused once it has changed.
        mounts: what else of this machine it may read: path here to path there.
        writable: folders of this machine that it may write, in place: path here to path there; /workspace may be one.
            Where root is the caller, what they hold is given to the sandbox's user. No checkpoint holds them.
        system: a folder whose `usr` is laid over this machine's /usr, to be read (backend `namespaces`, where there are
            overlays): programs that are not installed here.
        variables: the environment of its programs, besides PATH, HOME, LANG, TERM and TMPDIR.
        network: hosts it may reach, by a proxy: `host`, `host:port`, `*.domain`; none when empty.
        doors: ports of this machine's loopback that programs find on their own loopback, under the same number.
        host_network: whether it has this machine's network instead of one of its own: nothing is held back then.
        image: for containers: which image.
        processes: whether checkpoints take what runs along, and going back has it run on: where CRIU works and for
            backend `namespaces`. Where it cannot be done they keep files, and `Snapshot.note` says why.
        apart: whether its files stand on an overlay also where nothing is below them (4 ms more): then a program inside
            that looks after files (inotify) does not see its owner read them for a checkpoint.
    """

    limits: Limits = Limits()
    files: Path | None = None
    mounts: dict[Path, str] = msgspec.field(default_factory=dict)
    writable: dict[Path, str] = msgspec.field(default_factory=dict)
    system: Path | None = None
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    network: tuple[str, ...] = ()
    doors: tuple[int, ...] = ()
    host_network: bool = False
    image: str = ""
    processes: bool = False
    apart: bool = False


class Sandbox(ABC):
    """A place where programs run that Silva did not write. All its paths are paths inside; relative ones start at
    /workspace.
    """

    id: str
    spec: Spec

    @property
    def limits(self) -> Limits:
        """What it may use."""
        return self.spec.limits

    @abstractmethod
    async def exec(
        self,
        command: str | Sequence[str],
        *,
        stdin: bytes = b"",
        seconds: float | None = None,
        folder: str = "",
        variables: dict[str, str] | None = None,
    ) -> Result:
        """Run a command to its end. What it leaves in the background goes on running.

        Args:
            command: a line for `bash` (`sh` where there is none), or a program and its arguments.
            stdin: what it reads.
            seconds: how long it may take; `limits.wall` when left out.
            folder: where it starts.
            variables: more of its environment.

        Raises:
            SandboxGone: the sandbox has ended.
            UsageError: the command cannot be given as it is.
        """

    @abstractmethod
    async def session(
        self,
        command: str | Sequence[str] = "",
        *,
        rows: int = 40,
        columns: int = 120,
        folder: str = "",
        variables: dict[str, str] | None = None,
    ) -> Session:
        """Start a command on a terminal of its own, a shell when left out, and talk with it.

        Raises:
            SandboxGone: the sandbox has ended.
        """

    @abstractmethod
    async def put(self, source: Path | bytes, target: str) -> None:
        """Write a file (bytes, or a path here) or a folder with all it holds to `target`; folders above it are made.
        Links are copied as links.

        Raises:
            UsageError: there is no such source, or it cannot be written there.
        """

    @abstractmethod
    async def get(self, source: str, *, most: int = 64 << 20) -> bytes:
        """What a file contains, of `most` bytes at most.

        Raises:
            UsageError: it is no plain file, or larger.
        """

    @abstractmethod
    async def get_folder(self, source: str, target: Path, *, most: int = 1 << 30) -> Fetched:
        """Copy a folder to `target` here, which must not exist yet. What would reach outside it (links) and what is
        neither file, folder nor link is left out and named.

        Raises:
            UsageError: there is no such folder, `target` exists, or it holds more than `most` bytes.
        """

    @abstractmethod
    async def checkpoint(self, label: str = "") -> str:
        """Keep the sandbox's files as they are, and what runs where `Spec.processes` asks for that and it can be done;
        the id to come back to them.

        Raises:
            MissingError: this backend keeps no checkpoints.
        """

    @abstractmethod
    async def restore(self, id: str) -> None:
        """Make the sandbox what it was at a checkpoint, its own or another's of this backend. Its programs end; those
        that were kept run on, in sessions of the same ids.

        Raises:
            StoreError: the checkpoint is gone or damaged; the sandbox is left as it is.
        """

    @abstractmethod
    async def fork(self, id: str, n: int = 1) -> list[Self]:
        """`n` new sandboxes that begin at a checkpoint and go their own ways.

        Raises:
            StoreError: the checkpoint is gone or damaged.
        """

    @abstractmethod
    async def destroy(self) -> None:
        """End its programs and remove its files. Checkpoints stay. A second call does nothing."""

    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What it truly has here."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.destroy()


class Backend(ABC):
    """A way of making sandboxes, opened by one process on one event loop. Closing it destroys them all.

    Attributes:
        name: what it is asked for by.
    """

    name: str

    @abstractmethod
    async def create(self, spec: Spec | None = None, *, at: str = "") -> Sandbox:
        """A new sandbox.

        Args:
            spec: what it is to be.
            at: a checkpoint that its files begin at; `spec.files` is not used then.

        Raises:
            StoreError: the checkpoint is gone or damaged.
            MissingError: something it needs is not here.
            UsageError: the spec asks for what cannot be.
        """

    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What its sandboxes truly have here."""

    @abstractmethod
    async def close(self) -> None:
        """Destroy what is left of its sandboxes."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
