"""Paths: as the task's image has them, as Silva asks for them, and as programs in the sandbox see them.

    image  /app/a.csv  ─▶  asked for  /workspace/a.csv  ─▶  seen  the same (namespaces), or where it lies (process)

A task's working folder, /root, /tests, /solution and /logs have no place of their own in a sandbox. Wherever a task's
texts (instruction, scripts, files copied in) name them, they are put in the words of the place that stands for them.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import msgspec

from silva.envs.gyms.terminal.dockerfile import Recipe, Refused
from silva.envs.gyms.terminal.harbor import HarborFile
from silva.sandbox.protocol import WORKSPACE, Sandbox
from silva.tree import Record

HOME = "/home/agent"
_SCRATCH = ("/tmp", "/var/tmp")


class Places(Record, frozen=True, kw_only=True):
    """Paths of one task in one sandbox.

    Attributes:
        task: its name, for messages.
        root: the folder of the image that the workspace stands for.
        folder: where the task starts, as Silva asks for it.
        others: more folders of the image that stand somewhere in the home.
        seen: where programs see the workspace, the home and /tmp; those that lie elsewhere than asked for.
    """

    task: str
    root: str
    folder: str
    seen: dict[str, str]
    others: tuple[str, ...] = ()

    @classmethod
    async def of(cls, task: str, made: Recipe, sandbox: Sandbox) -> Places:
        """The paths of a task in a sandbox, which is asked where its own things lie.

        Raises:
            Refused: it starts in a folder that no sandbox has.
        """
        said = (await sandbox.exec('printf "%s\\n" "$PWD" "$HOME" "$TMPDIR"', seconds=30)).text.splitlines()
        seen = {asked: real for asked, real in zip((WORKSPACE, HOME, "/tmp"), said, strict=False) if asked != real}
        places = cls(task=task, root=made.root, folder=WORKSPACE, seen=seen, others=made.others)
        return msgspec.structs.replace(places, folder=places.inside(made.folder))

    @property
    def standing(self) -> tuple[tuple[str, str], ...]:
        """Folders of the image, and what stands for each."""
        more = ((place, f"{HOME}/image{place}") for place in self.others)
        return (self.root, WORKSPACE), *more, ("/root", HOME), *((each, each) for each in _SCRATCH)

    def inside(self, path: str) -> str:
        """A path of the image as Silva asks for it.

        Raises:
            Refused: it lies where a sandbox cannot be written.
        """
        path = posixpath.normpath(path)
        for place, stands in self.standing:
            if path == place or path.startswith(f"{place}/"):
                return stands + path[len(place) :]
        raise Refused(
            f"task {self.task}: {path} lies outside {self.root}, /root and /tmp, where a sandbox cannot be written"
        )

    def asked(self, path: str) -> str:
        """What an agent calls a file, as Silva asks for it: relative to where the task starts; `~` is its home."""
        path = re.sub(r"^~(?=/|$)", HOME, path)
        for stands, real in self.seen.items():
            if path == real or path.startswith(f"{real}/"):
                path = stands + path[len(real) :]
        return posixpath.normpath(posixpath.join(self.folder, path))

    def named(self, path: str) -> str:
        """A path that Silva asks for, as the sandbox's programs see it."""
        for stands, real in self.seen.items():
            if path == stands or path.startswith(f"{stands}/"):
                return real + path[len(stands) :]
        return path

    def text(self, text: str, more: dict[str, str] | None = None) -> str:
        """A text of the task in the sandbox's words; `more`: other places and what stands for them."""
        words = {WORKSPACE: WORKSPACE, HOME: HOME, **dict(self.standing), **(more or {})}
        words = {place: self.named(stands) for place, stands in words.items()}
        words = {place: stands for place, stands in words.items() if place != stands}
        if not words:
            return text
        either = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
        # A path begins where no other path goes on, and ends with its name.
        return re.sub(rf"(?<![\w.~/$}}*-])({either})(?![\w-]|\.\w)", lambda found: words[found[1]], text)

    def file(self, file: HarborFile, more: dict[str, str] | None = None) -> HarborFile:
        """A file of the task, in the sandbox's words where it is text."""
        try:
            text = file.content.decode()
        except UnicodeDecodeError:
            return file
        if "\0" in text:
            return file
        return HarborFile(content=self.text(text, more).encode(), executable=file.executable)


def relative(path: str, folder: str) -> Path:
    """A path below a folder, without it."""
    return Path(posixpath.relpath(path, folder))
