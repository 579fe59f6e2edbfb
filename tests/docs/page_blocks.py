"""The blocks of a page of documentation, run from top to bottom in one folder and one shell, as a reader would.

A ```console block holds commands (`$ ` before each, `\\` where a line goes on); a ```text block behind it is what they
print together; a ```python block is run as a program; a block with a title is a file to be written. In what is shown
`…` stands for anything in a line, and for any lines where it stands alone; blanks and rules of tables do not count. A
comment before a block says what a reader does besides:

    <!-- run: again -->    look again until it shows that
    <!-- run: beside -->   leave it running in a terminal of its own, and look at what it shows
    <!-- run: elsewhere -->  typed by another test than the page's own
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONGEST = 900.0
"""Seconds one command may take."""
PATIENCE = 120.0
"""Seconds in which what is looked at again must have come."""
MARK = "that-was-it"
RULES = " ─━│┃┌┬┐├┼┤└┴┘┏┳┓┡╇┩╭╮╰╯"
"""What a line of is no more than a rule of a table."""

_FENCE = re.compile(
    r"(?:^<!-- run: (?P<how>\w+) -->\n+)?^```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One block: what is typed, run or written, and what it shows (None: nothing is said of that)."""

    kind: str
    body: str
    how: str = ""
    title: str = ""
    shows: str | None = None

    @property
    def commands(self) -> list[str]:
        """The commands of a console block, each with its further lines."""
        return [piece.rstrip("\n") for piece in re.split(r"^\$ ", self.body, flags=re.MULTILINE)[1:]]


def blocks(page: Path) -> list[Block]:
    """The page's blocks in order; what is shown stands with the block before it."""
    found: list[Block] = []
    for match in _FENCE.finditer(page.read_text(encoding="utf-8")):
        kind, body = match["kind"], match["body"]
        if kind == "text" and not match["title"] and found and found[-1].shows is None:
            found[-1] = replace(found[-1], shows=body)
        else:
            found.append(Block(kind, body, match["how"] or "", match["title"] or ""))
    return found


def is_shown(expected: str, told: str) -> bool:
    """Whether what was told is what was expected, by the rule above."""
    lines = (
        r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n"
        for line in _lines(expected)
    )
    pattern = "".join(lines)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _lines(told))) is not None


def _lines(text: str) -> list[str]:
    squeezed = (" ".join(line.split()) for line in text.splitlines())
    return [line for line in squeezed if line.strip(RULES)]


@dataclass
class Reader:
    """Somebody who follows a page: a folder, and a shell that stays the same to its end.

    `instead` maps how a command begins to what is done in its place (installing is done once for all tests).
    """

    folder: Path
    instead: Mapping[str, Callable[[Path], None]] = field(default_factory=dict[str, Callable[[Path], None]])

    def __enter__(self) -> Reader:
        if not (self.folder / "examples").exists():
            (self.folder / "examples").symlink_to(ROOT / "examples")
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        environ = {
            **os.environ,
            "PATH": path,
            "NO_COLOR": "1",
            "COLUMNS": "120",
            "BROWSER": "true",
            "SILVA_USER": "ann",
        }
        environ.pop("SILVA_LAKE", None)
        self._said = (self.folder / ".stderr").open("w")
        self._shell = subprocess.Popen(
            ["bash"],
            cwd=self.folder,
            env=environ,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._shell.pid, signal.SIGTERM)
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.communicate()
        self._said.close()

    def follow(self, block: Block) -> None:
        """Do what a block says, and see that it shows what it is said to show."""
        if block.title:
            file = self.folder / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.body, encoding="utf-8")
        elif block.kind == "python":
            (self.folder / ".block.py").write_text(block.body, encoding="utf-8")
            self._see(block, ["python .block.py"])
        elif block.how == "beside":
            self._type(f"{{ {block.commands[0]}; }} > .beside 2>&1 &")
            self._see(replace(block, how="again"), ["cat .beside"])
        elif block.kind == "console":
            self._see(block, block.commands)
        else:
            assert block.kind != "text", f"nothing shows {block.body!r}"

    def _see(self, block: Block, commands: list[str]) -> None:
        """Type the commands until they end well and show what they are to show: once, or as often as it takes."""
        until = time.monotonic() + PATIENCE
        while wrong := self._wrong(block, commands):
            if block.how != "again" or time.monotonic() > until:
                said = (self.folder / ".stderr").read_text(encoding="utf-8", errors="replace")
                raise AssertionError(f"{wrong}\n{said[-4000:]}")
            time.sleep(0.5)

    def _wrong(self, block: Block, commands: list[str]) -> str:
        told = ""
        for command in commands:
            code, more = self._type(command)
            told += more
            if code != "0":
                return f"$ {command}\nended with {code}\n{told}"
        if block.shows is None or is_shown(block.shows, told):
            return ""
        return f"{block.body}\nshould show\n{block.shows}\nand showed\n{told}"

    def _type(self, command: str) -> tuple[str, str]:
        for begins, do in self.instead.items():
            if command.startswith(begins):
                do(self.folder)
                return "0", ""
        shell = self._shell
        assert shell.stdin and shell.stdout
        shell.stdin.write(f"{command}\nprintf '\\n{MARK} %s\\n' $?\n")
        shell.stdin.flush()
        timer = threading.Timer(LONGEST, os.killpg, (shell.pid, signal.SIGKILL))
        timer.start()
        told: list[str] = []
        code = "no code: its shell is gone"
        for line in shell.stdout:
            if line.startswith(MARK):
                code = line.split()[1]
                break
            told.append(line)
        timer.cancel()
        return code, "".join(told)
