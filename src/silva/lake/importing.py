"""From a file to a lake: what an import brings in, and what of the file could not be read.

file ─▶ what of it can be read (`salvage`) ─▶ what the lake has not ─▶ appended
"""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from silva.errors import UsageError
from silva.lake.exporting import images_of
from silva.tree import NO_USAGE, AnyRecord, Lineage, Node, Run, Trajectory, Usage, digest
from silva.tree.copies import turns_on
from silva.tree.formats import Bundle, Loader, described, detect, find, merged, reference, renamed, salvage
from silva.tree.trajectory import SHARED_TURNS

_BATCH = 2000


class Imported(msgspec.Struct, frozen=True):
    """What an import added, and how much of it the lake had already."""

    format: str
    runs: tuple[str, ...]
    trajectories: int
    nodes: int
    known: int
    images: int
    notes: tuple[str, ...] = ()
    """What of the file could not be read, each with its place."""
    dropped: int = 0
    """How many records dropped out."""


async def take_in(location: str, path: Path, name: str | None, run: str | None) -> Imported:
    """Read a file and append what the lake has not; what of it cannot be read drops out by name.

    Args:
        location: the lake; made where there is none.
        path: the file.
        name: its format; found out when None.
        run: the run to import into. None keeps the file's own, or takes the file's name.

    Raises:
        UsageError: nothing of the file can be read (line and field of the first fault), or its run is another one of
            the lake.
    """
    from silva.lake.lake import Lake

    data = _bytes(path)
    name = name or detect(path.name, data)
    stem = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in path.stem).strip("-.") or "file"
    load = _loader(path.parent)
    salvaged = salvage(find(name), data, path.name, run or stem, load)
    found = [_pictured(bundle, load) for bundle in salvaged.bundles]
    if run is not None:
        found = merged(renamed(bundle, run) for bundle in found)
    if not any(bundle.nodes or bundle.trajectories or bundle.tasks for bundle in found):
        raise UsageError(f"{path.name}: holds no trajectory")
    ended = [each for bundle in found for each in bundle.trajectories]
    if ended and not any(bundle.nodes for bundle in found) and all(t.outcome.status == "completed" for t in ended):
        raise UsageError(f"{path.name}: no message in it can be read as {name}; say another --format if it is none")
    source = f"{path.name}@{digest(data)[:12]}"
    added = {"trajectories": 0, "nodes": 0, "known": 0, "images": 0}
    async with Lake.open(location, mode="write") as lake:
        # All runs are looked at before the first record is written.
        prepared = [(bundle, _run(lake, bundle, source, chosen=run is not None)) for bundle in found]
        for bundle, described_run in prepared:
            for blob, image in bundle.blobs.items():
                stored = await lake.put_blob(image, _media_type(bundle, blob))
                added["images"] += stored == blob
            fresh = _fresh(lake, bundle)
            added["nodes"] += sum(isinstance(record, Node) for record in fresh)
            added["trajectories"] += sum(isinstance(record, Trajectory) for record in fresh)
            total = sum(1 for _ in bundle.trajectories)
            added["known"] += total - sum(isinstance(record, Trajectory) for record in fresh)
            records: list[AnyRecord] = [*([described_run] if described_run else []), *fresh]
            for begin in range(0, len(records), _BATCH):
                await lake.append(records[begin : begin + _BATCH])
    return Imported(
        format=name,
        runs=tuple(bundle.run.id for bundle in found),
        notes=tuple(note.said for note in salvaged.notes),
        dropped=sum(note.dropped for note in salvaged.notes),
        **added,
    )


def _pictured(bundle: Bundle, load: Loader) -> Bundle:
    """The bundle with the bytes of pictures that lie beside the file and that its format only names by their hash."""
    wanted = {part.hash: part for part in images_of(bundle.nodes) if part.hash not in bundle.blobs}
    found = {name: load(reference(part)) for name, part in wanted.items()}
    right = {name: data for name, data in found.items() if data is not None and sha256(data).hexdigest() == name}
    return msgspec.structs.replace(bundle, blobs={**bundle.blobs, **right}) if right else bundle


def _run(lake: Any, bundle: Bundle, source: str, chosen: bool) -> Run | None:
    """The run's record to write: its own, one made for the import, or none where the lake has it.

    Args:
        lake: the lake.
        bundle: what the file holds of the run.
        source: the file's name and digest.
        chosen: whether the run was asked for by its name; two files go into one run only then.

    Raises:
        UsageError: the lake has another run of that name.
    """
    stored, own = lake.run(bundle.run.id), bundle.run
    if stored is not None:
        if stored == own:
            return None
        if stored.command == "import":
            if chosen or source in stored.lineage.parents or _continues(lake, bundle):
                return None
            before = ", ".join(stored.lineage.parents) or "another file"
            problem = f"{source} is another file than {before}, which run {own.id} of the lake holds"
            raise UsageError(f"{problem}: import with --run NAME; --run {own.id} puts both into one")
        raise UsageError(f"run {own.id} is in the lake already and is another one: import with --run NAME")
    if described(own):
        return own
    now = time.time()
    return Run(
        id=own.id,
        command="import",
        envs=tuple(sorted({trajectory.env for trajectory in bundle.trajectories})),
        lineage=Lineage(parents=(source,)),
        status="completed",
        started=now,
        finished=now,
    )


def _continues(lake: Any, bundle: Bundle) -> bool:
    """Whether a file has all that its run holds, as a session that has gone on has, or nothing that it lacks."""
    held, given = {node.id for node in lake.nodes(run_id=bundle.run.id)}, {node.id for node in bundle.nodes}
    return held <= given or given <= held


def _fresh(lake: Any, bundle: Bundle) -> list[AnyRecord]:
    nodes = {node.id for node in lake.nodes(run_id=bundle.run.id)}
    trajectories = {each.id for each in lake.trajectories(run_id=bundle.run.id)}
    judged = {each.id for each in lake.supervisions(run_id=bundle.run.id)}
    tasks = {task.id for task in lake.tasks(run_id=bundle.run.id) if task.run_id}
    grown = [each for each in bundle.trajectories if each.id not in trajectories]
    if not described(bundle.run):
        grown = _counted_once(bundle, grown, nodes)
    return [
        *(task.owned_by(bundle.run.id) for task in bundle.tasks if task.id not in tasks),
        *(node for node in bundle.nodes if node.id not in nodes),
        *grown,
        *(each for each in bundle.supervisions if each.id not in judged),
    ]


def _counted_once(bundle: Bundle, grown: list[Trajectory], known: set[str]) -> list[Trajectory]:
    """The trajectories, each without the turns, and their cost, that the lake or an earlier one of them holds: of a
    session that went on, of the fork of one, of a conversation that branches."""
    counted, counts = set(known), list[Trajectory]()
    for trajectory in grown:
        walk = bundle.walk(trajectory)
        shared = len(turns_on(node for node in walk if node.id in counted))
        # What branches of one session share, its reader has billed to the first of them; what sessions share, nobody.
        whole = trajectory.usage == sum((node.usage for node in walk), NO_USAGE)
        paid = counted if whole else known
        billed = _billed_once(trajectory, [node for node in walk if node.id in paid])
        attributes = {**billed.attributes, SHARED_TURNS: shared} if shared else billed.attributes
        counts.append(msgspec.structs.replace(billed, attributes=attributes))
        counted.update(node.id for node in walk)
    return counts


def _billed_once(trajectory: Trajectory, known: list[Node]) -> Trajectory:
    """The trajectory without the cost of nodes that were paid for."""
    if not known:
        return trajectory
    paid = sum((node.usage for node in known), NO_USAGE)
    left = {
        name: max(value * 0, value - getattr(paid, name))
        for name, value in msgspec.structs.asdict(trajectory.usage).items()
    }
    return msgspec.structs.replace(trajectory, usage=Usage(**left))


def _loader(folder: Path) -> Callable[[str], bytes | None]:
    root = folder.resolve()

    def load(name: str) -> bytes | None:
        # Only what lies beside the file: an imported file must not pull in whatever else the machine holds.
        path = (root / name).resolve()
        if "://" in name or not path.is_relative_to(root) or not path.is_file():
            return None
        return path.read_bytes()

    return load


def _media_type(bundle: Bundle, blob: str) -> str:
    return next((part.media_type for part in images_of(bundle.nodes) if part.hash == blob), "application/octet-stream")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error
