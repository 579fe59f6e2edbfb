"""The files of an agent's world at a turn, from the snapshot kept after it, and what changed since the one before.

    node.snapshot_id ─▶ checkpoint (silva.sandbox) ─▶ its layers or its list of contents ─▶ files, their content, a diff

What a sandbox began with (its image) is not shown, only what was written there. The files are an agent's: links are
never followed, nothing but a plain file is opened, and of a file no more than a page can show is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from silva.console.diff import changes
from silva.envs.home import home
from silva.errors import StoreError, UsageError
from silva.sandbox import contents, layers
from silva.sandbox.layer_digest import opaque
from silva.tree import Node, Run

MOST_FILES = 2_000
"""Files listed of one snapshot."""
MOST_BYTES = 400_000
"""Bytes of a file that are read."""


@dataclass(frozen=True)
class File:
    """A file of a snapshot: its bytes lie at `place`; `state` tells one content from another without reading it."""

    path: str
    size: int
    mode: int
    place: Path
    root: Path
    state: str
    link: str = ""


def workspace(walk: Sequence[Node], node: str, run: Run | None, path: str = "") -> dict[str, Any]:
    """The files at the last snapshot up to a node, or one of them.

    Args:
        walk: the nodes, root first.
        node: up to where; the last if empty.
        run: says where its environments keep their checkpoints.
        path: a file, for its content and how it changed.

    Returns:
        `snapshots` of the walk (`node`, `turn` as place among them, `id`), `at` (the node whose snapshot is shown),
        `files` (`path`, `size`, `change`: `+`, `~`, `-` or ""), `note` where there is nothing to show and why; with a
        `path` also `file`: `text`, or `note`, and its `diff` against the snapshot before.

    Raises:
        UsageError: there is no such node on the walk.
        StoreError: a checkpoint is gone or damaged.
    """
    if node and not any(each.id == node for each in walk):
        raise UsageError(f"node {node[:40]!r} is not on this walk")
    taken = [each for each in walk if each.snapshot_id]
    listed = [{"node": each.id, "id": each.snapshot_id[:12], "depth": each.depth} for each in taken]
    made: dict[str, Any] = {"snapshots": listed, "at": "", "files": [], "note": ""}
    if not taken:
        return {**made, "note": "No snapshot was kept on this walk: silva rollout snapshots.every=1 keeps one a turn."}
    depth = next((each.depth for each in walk if each.id == node), walk[-1].depth)
    upto = [each for each in taken if each.depth <= depth]
    if not upto:
        return {**made, "note": "No snapshot was kept up to this turn."}
    at, before = upto[-1], upto[-2] if len(upto) > 1 else None
    made["at"] = at.id
    if (at.attributes.get("snapshot") or {}).get("kind") != "own":
        return {**made, "note": "This environment keeps its state as one piece: it has no files that can be shown."}
    now = files_of(at.snapshot_id, run)
    then = files_of(before.snapshot_id, run) if before is not None else {}
    made["files"] = _changed(now, then, before is not None)[:MOST_FILES]
    made["of"] = len(now)
    if path:
        made["file"] = _file(now.get(path), then.get(path), before is not None)
    return made


def files_of(checkpoint: str, run: Run | None) -> dict[str, File]:
    """The files that a checkpoint holds, by path.

    Raises:
        StoreError: it is gone or damaged.
    """
    for folder in _folders(run):
        record = folder / f"{checkpoint}.json"
        if not checkpoint.isalnum() or not record.is_file():
            continue
        try:
            known = msgspec.json.decode(record.read_bytes(), type=layers.Snapshot)
            return _of_contents(folder, checkpoint) if known.kind == contents.KIND else _of_layers(folder, known)
        except (OSError, msgspec.DecodeError) as error:
            raise StoreError(f"checkpoint {checkpoint[:12]} is damaged: {error}") from error
    raise StoreError(f"checkpoint {checkpoint[:12]} is not on this machine: it was made on another one, or removed")


def _folders(run: Run | None) -> list[Path]:
    options: dict[str, Any] = (run.config.get("options") if run is not None else None) or {}
    own = [
        Path(str(each["snapshots"])) for each in options.values() if isinstance(each, dict) and each.get("snapshots")
    ]
    base = home() / "snapshots"
    return [*own, *(sorted(base.iterdir()) if base.is_dir() else [])]


def _of_contents(folder: Path, checkpoint: str) -> dict[str, File]:
    entries = msgspec.json.decode((folder / f"{checkpoint}.list").read_bytes(), type=list[contents.Entry])
    found: dict[str, File] = {}
    for each in entries:
        if each.kind == "folder":
            continue
        place = folder / "objects" / each.content[:2] / each.content[2:]
        link = each.content if each.kind == "link" else ""
        found[each.path] = File(each.path, each.size, each.mode, place, folder, f"{each.mode} {each.content}", link)
    return found


def _of_layers(folder: Path, known: layers.Snapshot) -> dict[str, File]:
    found: dict[str, File] = {}
    for layer in known.layers:
        root = folder / "layers" / layer.name
        for path, about in _walked(root):
            if stat.S_ISCHR(about.st_mode) and about.st_rdev == 0:  # it was removed
                found = {name: each for name, each in found.items() if name != path and not name.startswith(f"{path}/")}
            elif stat.S_ISDIR(about.st_mode):
                if opaque(str(root / path)):
                    found = {name: each for name, each in found.items() if not name.startswith(f"{path}/")}
            elif stat.S_ISREG(about.st_mode) or stat.S_ISLNK(about.st_mode):
                link = os.readlink(root / path) if stat.S_ISLNK(about.st_mode) else ""  # noqa: PTH115
                state = f"{about.st_mode} {about.st_size} {link or about.st_mtime_ns}"
                found[path] = File(
                    _inside(path), about.st_size, stat.S_IMODE(about.st_mode), root / path, root, state, link
                )
    return {each.path: each for each in found.values()}


def _inside(path: str) -> str:
    """A layer's path as the sandbox calls it: what lies in the workspace by its own name, the rest from `/` on."""
    place, _, rest = path.partition("/")
    return {"workspace": rest, "rest": f"/{rest}"}.get(place, path)


def _walked(root: Path) -> Iterable[tuple[str, os.stat_result]]:
    """Everything in a layer, a folder before what is in it; links are not followed."""
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        with os.scandir(root / prefix) as children:
            for child in sorted(children, key=lambda each: each.name):
                path = f"{prefix}/{child.name}".lstrip("/")
                about = child.stat(follow_symlinks=False)
                yield path, about
                if stat.S_ISDIR(about.st_mode):
                    waiting.append(path)


def _changed(now: dict[str, File], then: dict[str, File], compared: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in sorted(now.keys() | then.keys()):
        each, old = now.get(path), then.get(path)
        change = ""
        if compared and each is None:
            change = "-"
        elif compared and old is None:
            change = "+"
        elif each is not None and old is not None and each.state != old.state:
            change = "~"
        size = each.size if each is not None else 0
        found.append({"path": path, "size": size, "change": change, "link": each.link if each is not None else ""})
    return sorted(found, key=lambda each: (not each["change"], each["path"]))


def _file(now: File | None, then: File | None, compared: bool) -> dict[str, Any]:
    if now is None and then is None:
        raise UsageError("there is no such file in this snapshot")
    new, old = _text(now), _text(then)
    note = next((text[1] for text in (new, old) if text[0] is None and text[1]), "")
    if note:
        return {"text": "", "note": note, "diff": []}
    diff = changes(old[0] or "", new[0] or "") if compared and (old[0] or "") != (new[0] or "") else []
    return {"text": new[0] or "", "note": "" if now is not None else "It was removed.", "diff": diff}


def _text(file: File | None) -> tuple[str | None, str]:
    """A file's text, or why it has none that can be shown."""
    if file is None:
        return None, ""
    if file.link:
        return None, f"A link to {file.link[:200]}."
    if file.size > MOST_BYTES:
        return None, f"It has {file.size:,} bytes: {MOST_BYTES:,} are the most that are shown."
    data = _read(file)
    if b"\x00" in data[:4_096]:
        return None, f"It is no text ({file.size:,} bytes)."
    return data.decode("utf-8", "replace"), ""


def _read(file: File) -> bytes:
    """A plain file's bytes; no component of its path may be a link."""
    parts = PurePosixPath(os.path.relpath(file.place, file.root)).parts
    held = os.open(file.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=held)
            os.close(held)
            held = inner
        opened = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=held)
    except OSError as error:
        raise StoreError(f"{file.path}: cannot be read ({error.strerror})") from error
    finally:
        os.close(held)
    with os.fdopen(opened, "rb") as reading:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise StoreError(f"{file.path}: is no plain file")
        return reading.read(MOST_BYTES)
