"""Workspace: a folder with files in it, a wish in words, and a check that says whether the wish was met.

For agents that are programs (`--agent "program: …"`): the program starts in the folder, works with whatever tools it
brings, and ends; its last words are the action. The folder's path is the attribute `workspace` of the observation. A
task of one's own is a line of a task file:

    {"id": "notes/1", "env": "workspace", "instruction": "Put the sum of a.txt into sum.txt.",
     "data": {"files": {"a.txt": "1\\n2\\n"}, "expect": {"sum.txt": "3"}}}

`expect` maps files to the text they must hold, ends stripped; `check` is a shell command that must succeed in the
folder. All that is given must hold.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from silva.envs.gyms.terminal.backend import borrow, give_back
from silva.envs.protocol import Capabilities, Evaluation, Observation, Planted
from silva.errors import UsageError
from silva.sandbox.judge import Judge
from silva.sandbox.namespaces import Namespaces
from silva.sandbox.owner import remove
from silva.sandbox.protocol import WORKSPACE, Spec
from silva.tree import Message, Task, assistant, user

CHECK_SECONDS = 60.0

_TASKS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "sum",
        "The file numbers.txt holds one whole number a line. Write their sum into sum.txt.",
        {"files": {"numbers.txt": "17\n-4\n29\n"}, "expect": {"sum.txt": "42"}},
    ),
    (
        "rename",
        "Rename every file that ends in .text so that it ends in .txt. Change nothing else.",
        {
            "files": {"a.text": "alpha\n", "b.text": "beta\n", "keep.md": "gamma\n"},
            "expect": {"a.txt": "alpha", "b.txt": "beta", "keep.md": "gamma"},
            "check": "test ! -e a.text && test ! -e b.text",
        },
    ),
    (
        "fix",
        "The script area.py should print the area of a rectangle given its two sides, but it prints something else. "
        "Mend it.",
        {
            "files": {"area.py": "import sys\n\nwidth, height = map(int, sys.argv[1:])\nprint(width + height)\n"},
            "check": 'test "$(python3 area.py 6 7)" = 42 && test "$(python3 area.py 3 5)" = 15',
        },
    ),
    (
        "count",
        "Write into words.txt how many words poem.txt has, as a number.",
        {"files": {"poem.txt": "one leaf falls\nthen another\nand the tree stays\n"}, "expect": {"words.txt": "9"}},
    ),
)


class Workspace:
    """A fresh folder for every episode, removed after it."""

    capabilities: ClassVar[Capabilities] = Capabilities(max_turns=1)

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._borrowed = False

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        """Four small tasks; give more by `--tasks FILE`."""
        if split != "test":
            raise UsageError(f"no split {split!r}; there is test")
        for name, instruction, data in _TASKS:
            yield Task(id=f"workspace/{name}", env="workspace", instruction=instruction, data=data)

    async def reset(self, task: Task, seed: int) -> Observation:
        """Make the folder and say the wish."""
        await self.close()
        self._data = task.data
        self._folder = Path(tempfile.mkdtemp(prefix="silva-workspace-"))
        files = task.data.get("files", {})
        if not isinstance(files, dict):
            raise UsageError(f"task {task.id}: data.files maps names to texts")
        for name, text in files.items():
            path = self._folder / _inside(task.id, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(text), encoding="utf-8")
        return Observation(messages=(user(task.instruction),), tools=(), attributes={"workspace": str(self._folder)})

    async def plant(self, surface: str, words: str) -> Planted:
        """Put words into a README of the folder; a program that looks around finds it."""
        if surface != "file" or self._folder is None:
            return Planted(why="a workspace has files, and no pages or windows")
        path = self._folder / "README.md"
        before = f"{path.read_text(encoding='utf-8')}\n" if path.is_file() else ""
        path.write_text(f"{before}{words}\n", encoding="utf-8")
        return Planted(where=path.name)

    async def step(self, action: Message) -> Observation:
        """The program has ended; what it did is in the folder."""
        return Observation(done=True)

    async def evaluate(self) -> Evaluation:
        """1 where every expected file is right and the check succeeds, else 0."""
        if self._folder is None:
            return Evaluation(score=0.0, success=False)
        wrong = [name for name, text in self._data.get("expect", {}).items() if self._text(name) != str(text).strip()]
        check = self._data.get("check")
        good = not wrong and (check is None or await self._succeeds(str(check)))
        return Evaluation(score=float(good), success=good)

    async def null(self) -> Message:
        """Do nothing."""
        return assistant("done")

    async def close(self) -> None:
        """Remove the folder."""
        folder, self._folder = self._folder, None
        if folder is not None:
            await asyncio.to_thread(remove, folder)
        if self._borrowed:
            self._borrowed = False
            await give_back("namespaces", None, self)

    def _text(self, name: str) -> str | None:
        assert self._folder is not None
        path = (self._folder / name).resolve()
        # A link the program made could lead anywhere.
        if not path.is_relative_to(self._folder.resolve()) or not path.is_file():
            return None
        return path.read_text(encoding="utf-8", errors="replace").strip()

    async def _succeeds(self, command: str) -> bool:
        """Whether the check succeeds. What it runs of the program's making cannot reach it (`silva.sandbox.judge`).

        Raises:
            MissingError: there can be none here.
        """
        assert self._folder is not None
        backend = await borrow("namespaces", None, self)
        self._borrowed = True
        assert isinstance(backend, Namespaces)
        async with await Judge.begin(backend, Spec(writable={self._folder: WORKSPACE}), imports=False) as judge:
            return (await judge.run(["/bin/sh", "-c", command], seconds=CHECK_SECONDS)).ok


def _inside(task: str, name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise UsageError(f"task {task}: file {name!r} must lie in the folder")
    return name
