"""HarborTask: a task as a folder, in the format of Harbor (https://www.harborframework.com/docs/tasks).

    task.toml        settings: time, memory, network, and metadata of any kind
    instruction.md   what the agent is told
    environment/     Dockerfile and the files it copies
    tests/           test.sh, which writes a reward to /logs/verifier/reward.txt (or reward.json)
    solution/        solve.sh, for the expert alone; turns.json (ours), when it is to be played in turns

`read` and `write` are each other's inverse for all that a task holds.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from silva.errors import UsageError
from silva.tree import Json, Record

MOST_BYTES = 256 << 20
"""A task that holds more is not read."""


class HarborFile(Record, frozen=True, kw_only=True):
    """One file of a task."""

    content: bytes
    executable: bool = False


class Verifier(Record, frozen=True, kw_only=True):
    """How the tests are run: seconds they may take, variables they see."""

    timeout_sec: float = 600.0
    user: str | int | None = None
    environment_mode: str | None = None
    env: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class Machine(Record, frozen=True, kw_only=True):
    """What the task's machine has; sizes in MiB, None where the task leaves it open."""

    build_timeout_sec: float | None = None
    allow_internet: bool = True
    os: str | None = None

    docker_image: str | None = None
    workdir: str | None = None
    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    memory: str | None = None
    storage: str | None = None
    gpus: int | None = None
    env: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    mcp_servers: list[Any] = msgspec.field(default_factory=list[Any])


class Settings(Record, frozen=True, kw_only=True):
    """What of task.toml decides how a task is played; all else stays in `HarborTask.document`."""

    verifier: Verifier = Verifier()
    environment: Machine = Machine()
    metadata: Json = msgspec.field(default_factory=dict[str, Any])
    steps: list[Any] = msgspec.field(default_factory=list[Any])


_KNOWN: dict[str, frozenset[str] | None] = {
    # Of a task's own description, and of whoever plays it elsewhere: kept, and nothing here depends on it.
    "": frozenset(("version", "schema_version", "source", "artifacts", "steps", "multi_step_reward_strategy")),
    "metadata": None,
    "task": None,
    "agent": frozenset(("timeout_sec", "user", "env")),
    "solution": frozenset(("env",)),
    "verifier": frozenset(("timeout_sec", "env", "user", "environment_mode")),
    "environment": frozenset(Machine.__struct_fields__),
}
_EMPTY: tuple[Any, ...] = ({}, [], "", None)


def unknown(document: Json) -> list[str]:
    """The fields of a task.toml that say something and are not understood, by their dotted names."""
    found: list[str] = []
    for name, value in document.items():
        if not isinstance(value, dict) or name not in _KNOWN:
            known = _KNOWN[""] or frozenset()
            found += [name] if name not in known and value not in _EMPTY else []
            continue
        fields = _KNOWN[name]
        if fields is not None:
            found += [f"{name}.{field}" for field in value if field not in fields and value[field] not in _EMPTY]
    return found


class HarborTask(Record, frozen=True, kw_only=True):
    """A task. `document` is the whole of task.toml; the files go by their paths below the folder they stand in."""

    name: str
    instruction: str
    document: Json = msgspec.field(default_factory=dict[str, Any])
    environment: dict[str, HarborFile] = msgspec.field(default_factory=dict[str, HarborFile])
    tests: dict[str, HarborFile] = msgspec.field(default_factory=dict[str, HarborFile])
    solution: dict[str, HarborFile] = msgspec.field(default_factory=dict[str, HarborFile])

    def settings(self) -> Settings:
        """Its settings, typed.

        Raises:
            UsageError: one has a value that makes no sense; the line names it.
        """
        try:
            return msgspec.convert(self.document, Settings)
        except msgspec.ValidationError as error:
            raise UsageError(f"task {self.name}: task.toml: {error}") from error


def folders(place: Path) -> list[Path]:
    """The task folders at a place: itself, or those in it, by name.

    Raises:
        UsageError: there is none.
    """
    if (place / "task.toml").is_file():
        return [place]
    found = sorted(each.parent for each in place.glob("*/task.toml")) if place.is_dir() else []
    if not found:
        raise UsageError(f"{place}: no task folder here; one holds task.toml, instruction.md, environment/ and tests/")
    return found


def read(folder: Path) -> HarborTask:
    """Read a task folder.

    Raises:
        UsageError: something of it is missing or cannot be read; the line names it.
    """
    name = folder.name
    for needed in ("task.toml", "instruction.md"):
        if not (folder / needed).is_file():
            raise UsageError(f"task {name}: there is no {needed}; several steps in one task are not played")
    try:
        document = tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))
        instruction = (folder / "instruction.md").read_text(encoding="utf-8")
        parts = {part: dict(_files(name, folder / part)) for part in ("environment", "tests", "solution")}
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"task {name}: task.toml: {error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"task {name}: its texts are not UTF-8: {error.reason}") from error
    except OSError as error:
        raise UsageError(f"task {name}: {Path(error.filename or folder).name}: {error.strerror}") from error
    return HarborTask(name=name, instruction=instruction, document=document, **parts)


def write(task: HarborTask, folder: Path) -> None:
    """Write a task folder, which must not exist yet.

    Raises:
        UsageError: it exists, or a file's path leads out of it.
    """
    if folder.exists():
        raise UsageError(f"{folder} exists already: give a path that does not")
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(toml(task.document), encoding="utf-8")
    (folder / "instruction.md").write_text(task.instruction, encoding="utf-8", newline="")
    for part in ("environment", "tests", "solution"):
        lay_out(getattr(task, part), folder / part)


def lay_out(files: dict[str, HarborFile], folder: Path) -> None:
    """Write files below a folder. Raises UsageError where a path leads out of it."""
    for path, file in files.items():
        place = folder / path
        if not place.resolve().is_relative_to(folder.resolve()) or place == folder:
            raise UsageError(f"{path!r} leads out of the task's folder")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.content)
        place.chmod(0o755 if file.executable else 0o644)


def toml(document: Json) -> str:
    """A document as TOML text: tables, text, numbers, truth values, lists, dates. Reading it gives it back."""
    return "".join(_table(document, ()))


def _files(name: str, folder: Path) -> Iterator[tuple[str, HarborFile]]:
    size = 0
    for path in sorted(folder.rglob("*")):
        if "__pycache__" in path.parts:
            continue
        if path.is_symlink():
            raise UsageError(f"task {name}: {folder.name}/{path.relative_to(folder)} is a link: put the file itself")
        if path.is_file():
            size += path.stat().st_size
            if size > MOST_BYTES:
                raise UsageError(f"task {name}: {folder.name}/ holds more than {MOST_BYTES >> 20} MB")
            executable = bool(path.stat().st_mode & 0o100)
            yield path.relative_to(folder).as_posix(), HarborFile(content=path.read_bytes(), executable=executable)


def _table(table: Json, path: tuple[str, ...]) -> Iterator[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    if path and (plain or not table):
        yield f"[{'.'.join(map(_text, path))}]\n"
    for key, value in plain.items():
        yield f"{_text(key)} = {_value(value)}\n"
    for key, value in table.items():
        if isinstance(value, dict):
            yield "\n"
            yield from _table(value, (*path, key))


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return {"Infinity": "inf", "-Infinity": "-inf", "NaN": "nan"}.get(json.dumps(value), repr(value))
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(key)} = {_value(each)}" for key, each in value.items()) + "}"
    return str(value)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
