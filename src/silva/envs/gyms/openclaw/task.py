"""A task in PinchBench's form: Markdown with front matter, a prompt, and checks in Python that run in a sandbox.

    file ─▶ front matter (id, name, workspace_files, …) + sections (Prompt, Automated Checks, …) ─▶ Errand

Silva's own tasks say more in the same form: `services` (what stands in the mailbox, the calendar, …), `trap` and
`canary` (where an attack is, and words by which one sees that the model saw it), and the sections Risk Checks, Expert
and Obedient.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from silva.errors import UsageError
from silva.tree import Json, Message, Record, assistant, call

_FRONT = re.compile(r"\A---\s*\n(.*?)\n---\s*\n(.*)\Z", re.DOTALL)
_SECTION = re.compile(r"^## +(.+?)\s*$", re.MULTILINE)
_CODE = re.compile(r"```(?:python|yaml)\s*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_MOST_FILE = 16 << 20
_MOST_SECONDS = 3600.0
_MOST_SESSIONS = 20


class Errand(Record, frozen=True, kw_only=True):
    """One task, read."""

    id: str
    name: str
    category: str
    grading: str
    seconds: float
    prompt: str
    files: dict[str, str]
    sources: dict[str, str]
    """Files of the task's folder by their place in the workspace."""
    services: Json
    trap: str
    canary: str
    grade: str
    risk: str
    expert: tuple[Any, ...]
    obedient: tuple[Any, ...]
    sessions: tuple[tuple[str, bool], ...] = ()
    """What the user says in each of several sessions, and whether it is a new one; none: `prompt`, in one."""

    def said(self, script: str, turn: int) -> Message:
        """What a scripted model says in its `turn`-th turn; its last words where there is no more."""
        lines = self.expert if script == "expert" else self.obedient
        line = lines[turn] if turn < len(lines) else "Done."
        if isinstance(line, str):
            return assistant(line)
        return assistant(
            "", *(call(name, arguments, f"call{turn}n{n}") for n, (name, arguments) in enumerate(line.items()))
        )


def read(text: str, where: str) -> Errand:
    """A task from its text.

    Raises:
        UsageError: it is not in that form; the line says where it parts from it.
    """
    found = _FRONT.match(text.replace("\r\n", "\n"))
    if found is None:
        raise UsageError(f"{where}: a task begins with front matter between two lines of ---")
    try:
        front = yaml.safe_load(found[1])
    except yaml.YAMLError as error:
        raise UsageError(f"{where}: the front matter is no YAML: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(front, dict) or not isinstance(front.get("id"), str) or not re.fullmatch(r"[\w.-]+", front["id"]):
        raise UsageError(f"{where}: the front matter needs an id of letters, digits, _, - and .")
    parts = _SECTION.split(found[2])
    sections = {name.lower(): body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}
    if not sections.get("prompt"):
        raise UsageError(f"{where}: there is no section Prompt")
    grading = str(front.get("grading_type", "automated"))
    grade = _code(sections.get("automated checks", ""))
    if grading not in ("automated", "llm_judge", "hybrid"):
        raise UsageError(f"{where}: grading_type is {grading!r}; it may be automated, llm_judge or hybrid")
    if grading != "llm_judge" and "def grade(" not in grade:
        raise UsageError(f"{where}: the section Automated Checks holds no grade() in a block of Python")
    files, sources = _files(front.get("workspace_files") or [], where)
    try:
        seconds = min(_MOST_SECONDS, max(1.0, float(front.get("timeout_seconds", 600))))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: timeout_seconds is no number") from error
    return Errand(
        id=front["id"],
        name=str(front.get("name", front["id"])),
        category=str(front.get("category", "")),
        grading=grading,
        seconds=seconds,
        prompt=sections["prompt"],
        files=files,
        sources=sources,
        services=front.get("services") or {},
        trap=str(front.get("trap", "")),
        canary=str(front.get("canary", "")),
        grade=grade,
        risk=_code(sections.get("risk checks", "")),
        expert=_script(sections.get("expert", ""), where),
        obedient=_script(sections.get("obedient", ""), where),
        sessions=_sessions(front.get("sessions") or [], where),
    )


def found_in(folder: Path) -> list[Path]:
    """The task files of a folder, in the order of their names; a template is none.

    Raises:
        UsageError: there are none.
    """
    paths = [path for path in sorted(folder.glob("*.md")) if path.read_text("utf-8", "replace").startswith("---")]
    paths = [path for path in paths if "template" not in path.stem.lower()]
    if not paths:
        raise UsageError(f"there are no tasks in {folder.name}: a task is a file NAME.md that begins with front matter")
    return paths


def source_of(folder: Path, name: str) -> Path:
    """A file that a task brings along: beside it, or in `assets` as PinchBench keeps them.

    Raises:
        UsageError: there is none, or it is over 16 MB.
    """
    for place in (folder / name, folder.parent / "assets" / name, folder.parent / name, folder / "assets" / name):
        if place.is_file() and place.resolve().is_relative_to(folder.parent.resolve()):
            if place.stat().st_size > _MOST_FILE:
                raise UsageError(f"the task's file {name} is over 16 MB")
            return place
    raise UsageError(f"the task's file {name} is not there")


def _code(section: str) -> str:
    found = _CODE.search(section)
    return found[1] if found else ""


def _script(section: str, where: str) -> tuple[Any, ...]:
    if not section:
        return ()
    try:
        lines = yaml.safe_load(_code(section) or section)
    except yaml.YAMLError as error:
        raise UsageError(f"{where}: a script is no YAML: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(lines, list) or not all(isinstance(line, str | dict) for line in lines):
        raise UsageError(f"{where}: a script is a list of calls (tool: arguments) and words")
    return tuple(lines)


def _sessions(given: Any, where: str) -> tuple[tuple[str, bool], ...]:
    if not isinstance(given, list) or len(given) > _MOST_SESSIONS:
        raise UsageError(f"{where}: sessions is a list of at most {_MOST_SESSIONS} with a prompt each")
    said: list[tuple[str, bool]] = []
    for place, each in enumerate(given):
        if not isinstance(each, dict) or not isinstance(each.get("prompt"), str) or not each["prompt"].strip():
            raise UsageError(f"{where}: sessions: the one at place {place + 1} has no prompt")
        said.append((each["prompt"].strip(), bool(each.get("new_session"))))
    return tuple(said)


def _files(given: Any, where: str) -> tuple[dict[str, str], dict[str, str]]:
    files: dict[str, str] = {}
    sources: dict[str, str] = {}
    for entry in given if isinstance(given, list) else [None]:
        if not isinstance(entry, dict):
            raise UsageError(f"{where}: workspace_files is a list of path and content, or source and dest")
        if "content" in entry:
            files[_inside(entry.get("path") or entry.get("dest"), where)] = str(entry["content"])
        else:
            source = _inside(entry.get("source") or entry.get("path"), where)
            sources[_inside(entry.get("dest") or source, where)] = source
    return files, sources


def _inside(name: Any, where: str) -> str:
    path = PurePosixPath(str(name or ""))
    if name is None or path.is_absolute() or ".." in path.parts or not path.parts:
        raise UsageError(f"{where}: file {name!r} must lie in the workspace")
    return str(path)
