"""`silva sandbox shell`, as typed at a terminal and as fed from a pipe."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from silva.sandbox.system import probe

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(probe().problem), reason="no namespaces here"),
]
PATIENCE = 300.0


def words(*more: str) -> list[str]:
    return [sys.executable, "-m", "silva", "sandbox", "shell", *more]


def piped(state: Path, text: str, *more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SILVA_SANDBOXES": str(state)}
    return subprocess.run(words(*more), input=text, capture_output=True, text=True, timeout=PATIENCE, env=environment)


class Terminal:
    """A terminal with `silva sandbox shell` on it."""

    def __init__(self, state: Path, *more: str) -> None:
        self.fd, other = pty.openpty()
        self.resize(30, 100)
        self.before = termios.tcgetattr(other)
        self.program = subprocess.Popen(
            ["setsid", "--ctty", *words(*more)],
            stdin=other,
            stdout=other,
            stderr=other,
            env={**os.environ, "SILVA_SANDBOXES": str(state), "TERM": "dumb"},
        )
        self.other = other
        self.seen = b""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def until(self, pattern: str) -> str:
        """Read until something is on the screen that was not there at the last call."""
        os.set_blocking(self.fd, False)
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(pattern.encode(), self.seen)) is None:
            with contextlib.suppress(BlockingIOError, OSError):
                self.seen += os.read(self.fd, 1 << 16)
            assert time.monotonic() < deadline, self.seen.decode(errors="replace")
            time.sleep(0.02)
        self.seen = self.seen[found.end() :]
        return found.group().decode()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(tmp_path / "state")
    yield opened
    opened.program.kill()
    opened.program.wait()
    for fd in (opened.fd, opened.other):
        os.close(fd)


def test_a_terminal_has_its_size_keys_ctrl_c_and_exit_code(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type("stty size; tty; echo $((40 + 2))\n")
    terminal.until(r"30 100\r\n/dev/")
    terminal.until(r"\n42\r\n")
    terminal.resize(50, 133)
    terminal.type("while [ \"$(stty size)\" != '50 133' ]; do sleep 0.05; done; echo re''sized\n")
    terminal.until("resized")
    terminal.type("sleep 600; echo not''-yet\n")
    time.sleep(0.5)
    terminal.type("\x03")
    terminal.type("echo still-''here\n")
    terminal.until("still-here")
    assert b"not-yet" not in terminal.seen
    terminal.type("exit 7\n")
    assert terminal.program.wait(PATIENCE) == 7
    assert termios.tcgetattr(terminal.other) == terminal.before, "the terminal is as it was"
    assert list((tmp_path / "state").iterdir()) == []


def test_what_ends_it_leaves_the_terminal_as_it_was(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type("echo re''ady\n")
    terminal.until("ready")
    terminal.program.terminate()
    assert terminal.program.wait(PATIENCE) == 128 + signal.SIGTERM
    assert termios.tcgetattr(terminal.other) == terminal.before
    assert list((tmp_path / "state").iterdir()) == []


def test_a_pipe_runs_its_lines_and_passes_the_exit_code_on(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "file").write_text("inside\n")
    done = piped(
        tmp_path / "s", "cat file\ntest -t 0 || echo no terminal\necho wrong >&2\nexit 5\n", str(tmp_path / "work")
    )
    assert (done.returncode, done.stdout, done.stderr) == (5, "inside\nno terminal\n", "wrong\n")
    assert piped(tmp_path / "s", "kill -TERM $$").returncode == 128 + signal.SIGTERM
    hosts = piped(
        tmp_path / "s",
        "getent hosts localhost >/dev/null; cat /proc/net/dev | grep -c :\nls /work /root 2>&1 | head -1",
    )
    assert hosts.stdout.split()[0] == "1", "a loopback and no other network"
    assert list((tmp_path / "s").iterdir()) == []


def test_a_pipe_is_answered_line_by_line(tmp_path: Path) -> None:
    environment = {**os.environ, "SILVA_SANDBOXES": str(tmp_path)}
    with subprocess.Popen(words(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as program:
        assert program.stdin is not None and program.stdout is not None
        for number in range(3):
            program.stdin.write(f"echo answer {number}\n".encode())
            program.stdin.flush()
            assert program.stdout.readline() == f"answer {number}\n".encode()
        program.stdin.write(b"yes; echo never\n")
        program.stdin.flush()
        program.stdout.read(100)
        program.stdout.close()  # nobody reads any more
        assert program.wait(PATIENCE) == 128 + signal.SIGPIPE
    assert list(tmp_path.iterdir()) == []


def test_time_checkpoints_and_wrong_options(tmp_path: Path) -> None:
    late = piped(tmp_path / "s", "sleep 60", "--timeout", "0.3")
    assert late.returncode == 6 and late.stderr == "killed: it took longer than 0.3 s\n"
    kept = piped(tmp_path / "s", "echo 1 > a", "--snapshots", str(tmp_path / "k"), "--keep", "one")
    assert kept.returncode == 0
    again = piped(tmp_path / "s", "cat a", "--snapshots", str(tmp_path / "k"), "--from", kept.stderr.split()[-1])
    assert again.stdout == "1\n"
    lost = piped(tmp_path / "s", "", "--from", "f" * 16)
    assert lost.returncode == 2 and "need --snapshots FOLDER" in lost.stderr
    both = piped(tmp_path / "s", "", str(tmp_path), "--from", "f" * 16)
    assert both.returncode == 2 and "leave one out" in both.stderr
    gone = piped(tmp_path / "s", "", str(tmp_path / "nowhere"))
    assert gone.returncode == 2 and len(gone.stderr.splitlines()) == 1
