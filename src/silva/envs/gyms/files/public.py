"""Public tasks, read where a user has them: GTA's `dataset.json` with its pictures, GAIA's `metadata.jsonl` with its
files. Nothing is fetched.

    files/PLACE ─▶ dataset.json | metadata.jsonl, there or one or two folders below ─▶ tasks, files named by `here`

GTA: `gt_answer` is {whitelist, blacklist} (judged by tokens), a list of good answers or nothing (judged by nobody: the
score is None). `tools_wanted` is the reference chain; GTA's tools have other names and are told of in `_GTA_TOOLS`.
GAIA: the final answer must occur, and nothing but it may be answered at length.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from silva.envs.gyms.files.folder import MOST_BYTES
from silva.errors import UsageError
from silva.tree import Json, Task

_MOST_INDEX = 64 << 20
_INDEXES = ("dataset.json", "metadata.jsonl")
# What does the same here. A tool of GTA's that nothing here stands for keeps its own name, and nobody calls it.
_GTA_TOOLS = {
    "Calculator": "calculate",
    "OCR": "ocr",
    "CountGivenObject": "count",
    "TextToBbox": "locate",
    "RegionAttributeDescription": "describe_region",
    "ImageDescription": "describe_region",
    "DrawBox": "draw_box",
    "AddText": "draw_box",
    "GoogleSearch": "search",
    "Plot": "plot",
    "Solver": "solve",
    "MathOCR": "ocr",
}


def public(name: str, place: Path, split: str) -> Iterator[Task]:
    """The tasks of a folder; `test` are all, GAIA's levels are level1 to level3.

    Raises:
        UsageError: there is no such split, or no index of a known form, or it is damaged.
    """
    if split not in ("test", "level1", "level2", "level3"):
        raise UsageError(f"{name}: no split {split!r}; there are test, level1, level2, level3")
    index = _index(name, place)
    try:
        if index.stat().st_size > _MOST_INDEX:
            raise UsageError(f"{name}: {index.name} is larger than {_MOST_INDEX >> 20} MB")
        text = index.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{name}: {index.name} cannot be read: {error}") from error
    found = _gta(name, place, index, text) if index.name == "dataset.json" else _gaia(name, place, index, text)
    return iter([task for task in found if split in ("test", *task.tags)])


def public_file(place: Path | None, path: str) -> bytes:
    """A file of a folder of public tasks.

    Raises:
        UsageError: it does not lie in that folder, is not there, or is too large.
    """
    if place is None:
        raise UsageError("a file of kind 'here' stands in a folder of public tasks: files/PLACE")
    found = (place / path).resolve()
    if not found.is_relative_to(place.resolve()):
        raise UsageError(f"{path} does not lie in {place.name}")
    try:
        if found.stat().st_size > MOST_BYTES:
            raise UsageError(f"{path} has more than {MOST_BYTES >> 20} MB")
        return found.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; is the whole data set there?") from error


def _index(name: str, place: Path) -> Path:
    for pattern in _INDEXES:
        found = sorted(each for depth in ("", "*/", "*/*/") for each in place.glob(f"{depth}{pattern}"))
        if found:
            return found[0]
    parquet = any(place.glob("**/metadata*.parquet"))
    more = "; GAIA's metadata.parquet is not read, its metadata.jsonl is" if parquet else ""
    raise UsageError(f"{name}: the folder holds neither GTA's dataset.json nor GAIA's metadata.jsonl{more}")


def _gta(name: str, place: Path, index: Path, text: str) -> Iterator[Task]:
    try:
        entries: dict[str, Any] = json.loads(text)
        items = sorted(entries.items(), key=lambda item: (len(item[0]), item[0]))
    except (ValueError, AttributeError, RecursionError) as error:
        raise UsageError(f"{name}: {index.name} is damaged: {error}") from error
    for key, entry in items:
        try:
            dialogs = entry["dialogs"]
            words = next(each["content"] for each in dialogs if each["role"] == "user")
            files = {Path(each["path"]).name: _here(place, index, each["path"]) for each in entry["files"]}
            called = [call["function"]["name"] for each in dialogs for call in each.get("tool_calls") or ()]
            check = _gta_check(entry.get("gt_answer"))
        except (KeyError, TypeError, StopIteration, AttributeError) as error:
            raise UsageError(f"{name}: {index.name}: task {key} is not as GTA's are: {error!r}"[:300]) from error
        wanted = [_GTA_TOOLS.get(tool, tool) for tool in called]
        data = {"files": files, "check": check, "tools_wanted": wanted, "made": {"source": "GTA", "task": key}}
        yield Task(id=f"{name}/gta/{key}", env=name, instruction=str(words), data=data, tags=("gta",))


def _gta_check(answer: Any) -> Json:
    if isinstance(answer, dict) and answer.get("whitelist"):
        return {"answer": {"all": answer["whitelist"], "none": _flat(answer.get("blacklist")), "most": 200}}
    return {}


def _gaia(name: str, place: Path, index: Path, text: str) -> Iterator[Task]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            key, words, level = str(entry["task_id"]), str(entry["Question"]), int(entry["Level"])
            answer, file = str(entry.get("Final answer", "?")), str(entry.get("file_name") or "")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(f"{name}: {index.name} line {number} is not as GAIA's are: {error!r}"[:300]) from error
        files = {file: _here(place, index, file)} if file else {}
        # The test part's answers are not published: "?" stands for them.
        items = [[part.strip()] for part in answer.split(",")] if ", " in answer else [[answer]]
        check: Json = {"answer": {"all": items, "most": 2 * len(answer.split()) + 12}} if answer != "?" else {}
        data = {"files": files, "check": check, "made": {"source": "GAIA", "task": key}}
        yield Task(id=f"{name}/gaia/{key}", env=name, instruction=words, data=data, tags=("gaia", f"level{level}"))


def _here(place: Path, index: Path, path: str) -> Json:
    full = (index.parent / path).resolve()
    shown = full.relative_to(place.resolve()) if full.is_relative_to(place.resolve()) else Path(path)
    return {"kind": "here", "path": str(shown)}


def _flat(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for each in value for text in _flat(each)]
    return [] if value is None else [str(value)]
