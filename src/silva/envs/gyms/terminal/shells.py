"""Shell: commands on a terminal that run on while the agent thinks.

    start ─▶ bash on a terminal ─▶ run(command) ─▶ wait(seconds) ─▶ output(since) · type(text) · idle · kill
                                        └ it runs on: its end is a mark that bash prints with exit code and folder
    state() ─▶ ShellState, with a checkpoint ─▶ resumed, where the bash of then runs on

Another mark tells that bash has taken the line: what is typed before, such as Ctrl-C, would take the line away. Marks
are made of bytes no program prints by chance; they are taken out of what the agent reads.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time

from silva.errors import UsageError
from silva.sandbox.protocol import Sandbox
from silva.sandbox.session import Session
from silva.tree import Record

_LONGEST_LINE = 3500
"""A terminal takes lines of 4,095 bytes; a longer command goes by way of a file."""
_READY_SECONDS = 20.0
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]|[\x00-\x08\x0b-\x1f\x7f]")
_TYPED_AFTER_SECONDS = 0.2
"""Between bash taking a line and the program being there, an interrupt gets lost; nobody types faster than this."""
KEYS = {"ctrl-c": b"\x03", "ctrl-d": b"\x04", "ctrl-z": b"\x1a", "enter": b"\n", "tab": b"\t", "escape": b"\x1b"}


class ShellState(Record, frozen=True, kw_only=True):
    """A shell at a checkpoint. `session`: its terminal's name in the sandbox; `token`: what its marks are made of;
    `begun`, `read`: where in its output the last command begins, and how far the agent has read."""

    name: str
    folder: str
    running: str = ""
    session: str = ""
    token: str = ""
    begun: int = 0
    read: int = 0
    code: int | None = None


class Shell:
    """One bash on one terminal.

    Attributes:
        name: what the agent calls it.
        folder: where it is, as programs see it.
        running: the command that runs, "" when it waits for one.
        code: the last command's exit code.
    """

    def __init__(self, name: str, session: Session, sandbox: Sandbox, token: str) -> None:
        self.name = name
        self.folder = ""
        self.running = ""
        self.code: int | None = None
        self._session = session
        self._sandbox = sandbox
        self._token = token
        self._mark = re.compile(rb"\x1e" + token.encode() + rb":(-?\d+):([^\x1e]*)\x1e")
        self._begun = b"\x1e" + token.encode() + b":begun\x1e"
        self._from = 0
        self._read = 0
        self._began = 0.0

    @classmethod
    async def start(cls, sandbox: Sandbox, name: str, folder: str, variables: dict[str, str]) -> Shell:
        """Start bash in a folder (a path as Silva asks for it).

        Raises:
            UsageError: it does not start there.
        """
        token = secrets.token_hex(6)
        words = ["bash", "--noprofile", "--norc", "--noediting", "-i"]
        session = await sandbox.session(words, folder=folder, variables={**variables, "TERM": "dumb", "PS1": ""})
        shell = cls(name, session, sandbox, token)
        # Its own function says at every prompt how the command ended, once what it did to the terminal is undone.
        said = f'stty sane -echo -onlcr 2>/dev/null; printf "\\036{token}:%d:%s\\036" "$1" "$PWD"'
        begun = f'printf "\\036{token}:begun\\036"'
        functions = f"_mark() {{ {said}; }}; _begun() {{ {begun}; return $1; }}"
        await session.send(f"set +mH; PS1= PS2=; {functions}; PROMPT_COMMAND='_mark $?'\n")
        await shell.wait(_READY_SECONDS)
        if shell.code is None or not shell.alive:
            await session.kill()
            raise UsageError(f"no shell could be started in {folder}")
        shell.code = None
        shell._read = session.position
        return shell

    @classmethod
    def resumed(cls, state: ShellState, session: Session, sandbox: Sandbox) -> Shell:
        """The shell of a checkpoint whose bash runs on in `session`."""
        shell = cls(state.name, session, sandbox, state.token)
        shell.folder, shell.running, shell.code = state.folder, state.running, state.code
        shell._from, shell._read = state.begun, state.read
        return shell

    def state(self, folder: str) -> ShellState:
        """What goes with a checkpoint. `folder`: where it is, as Silva asks for it."""
        return ShellState(
            name=self.name,
            folder=folder,
            running=self.running,
            session=self._session.id,
            token=self._token,
            begun=self._from,
            read=self._read,
            code=self.code,
        )

    @property
    def alive(self) -> bool:
        """Whether bash is there."""
        return self._session.alive

    @property
    def idle(self) -> float:
        """Seconds since it printed or was typed to."""
        return self._session.idle

    @property
    def position(self) -> int:
        """How many bytes it has printed."""
        return self._session.position

    async def run(self, command: str) -> None:
        """Begin a command; its end is not waited for.

        Raises:
            UsageError: another still runs, or the shell has ended.
        """
        if not self.alive:
            raise UsageError(f"session {self.name} has ended; create another")
        if self.running:
            raise UsageError(
                f"session {self.name} still runs: {_shown(self.running)}; wait with session_output, type with"
                " session_input, end it with session_kill or ctrl-c, or use another session"
            )
        if "\0" in command:
            raise UsageError("a command cannot hold NUL bytes")
        line = f"_begun $?; eval {_quoted(command)}"
        if len(line.encode()) > _LONGEST_LINE:
            file = f".command-{self._token}"
            written = await self._sandbox.exec(f'cat > "$TMPDIR/{file}"', stdin=command.encode(), seconds=30)
            if not written.ok:
                raise UsageError(f"the command is too long: {written.stderr.decode(errors='replace').strip()}")
            line = f'_begun $?; eval "$(cat "$TMPDIR/{file}"; rm -f "$TMPDIR/{file}")"'
        self._from, self.running, self.code = self._session.position, command, None
        await self._session.send(f"{line}\n")
        await self._session.until(self._begun, self._from, _READY_SECONDS)
        self._began = time.monotonic()

    async def wait(self, seconds: float) -> bool:
        """Wait for the command's end, that of the shell, or so many seconds; whether none runs any longer."""
        until = time.monotonic() + seconds
        start = b"\x1e" + self._token.encode() + b":"
        while not self._ended():
            left = until - time.monotonic()
            if left <= 0 or not self._session.alive:
                break
            if await self._session.until(start, self._from, left):
                await asyncio.sleep(0.001)
            elif not self._session.open:
                await self._session.ended(until - time.monotonic())
        if not self._session.alive:
            self.running = ""
        return not self.running and (self.code is not None or not self._session.alive)

    def output(self, since: int | None = None) -> tuple[str, int]:
        """What it printed after a position (None: what was not asked for yet), and the position reached."""
        self._ended()
        start = self._read if since is None else max(0, since)
        data, position = self._session.read(start)
        missed = max(0, self._session.missed_before - start)
        data = self._mark.sub(b"", data).replace(self._begun, b"")
        # The beginning of a mark that is not whole yet stays for the next time.
        start_of_mark = b"\x1e" + self._token.encode() + b":"
        cut = data.rfind(b"\x1e")
        if cut >= 0 and (data[cut:].startswith(start_of_mark) or start_of_mark.startswith(data[cut:])):
            position -= len(data) - cut
            data = data[:cut]
        self._read = position
        text = _ESCAPES.sub("", data.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n"))
        return (f"[{missed:,} bytes are no longer kept]\n" if missed else "") + text, position

    async def type(self, text: str | bytes) -> None:
        """Type something to the program that runs.

        Raises:
            UsageError: the shell has ended.
        """
        await asyncio.sleep(max(0.0, self._began + _TYPED_AFTER_SECONDS - time.monotonic()))
        await self._session.send(text)

    async def settle(self, seconds: float) -> None:
        """Wait until the program has answered: it ends, or prints nothing for a moment."""
        until = time.monotonic() + seconds
        before = self._session.position
        while self.running and self.alive and time.monotonic() < until:
            if await self.wait(min(0.15, max(0.0, until - time.monotonic()))):
                return
            if self._session.position > before and self._session.idle > 0.1:
                return

    async def kill(self) -> None:
        """End it with all it started."""
        await self._session.kill()
        self.running = ""

    def status(self) -> str:
        """One line on how it stands."""
        self._ended()
        if not self.alive:
            return f"[session {self.name} has ended, exit code {self._session.code}]"
        if self.running:
            return f"[still running: {_shown(self.running)}]"
        return "[no command was run yet]" if self.code is None else f"[exit code {self.code}]"

    def _ended(self) -> bool:
        """Whether the command has ended, as far as has been printed."""
        if not self.running and self.code is not None:
            return True
        data, _ = self._session.read(self._from)
        marks = list(self._mark.finditer(data))
        if not marks:
            return False
        found = marks[-1]
        self.code, self.folder, self.running = int(found[1]), found[2].decode(errors="replace"), ""
        return True


def _quoted(command: str) -> str:
    """A command as one line and one word of bash."""

    def escaped(found: re.Match[str]) -> str:
        return f"\\{found[0]}" if found[0] in "\\'" else f"\\x{ord(found[0]):02x}"

    return "$'" + re.sub(r"[\\'\x00-\x1f\x7f]", escaped, command) + "'"


def _shown(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= 80 else f"{line[:77]}..."
