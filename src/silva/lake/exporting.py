"""From a lake to a file: which records go into an export, and what of them a format can hold.

lake ─▶ one bundle a tree ─▶ format ─▶ a file beside its final name ─▶ renamed when whole
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from silva.errors import StoreError, UsageError
from silva.tree import ImagePart, Node, Role, Run, Supervision, Task, Trajectory, in_role, roles_of
from silva.tree.formats import FORMATS, WRITABLE, Bundle, FormatError, find, reference, write

_SPOOLED = 64 << 20


class Exported(msgspec.Struct, frozen=True):
    """What an export wrote. `images` lie in the file or beside it; `missing` counts those the lake does not hold;
    `dropped` says why each trajectory that the format cannot hold is not in it."""

    trajectories: int
    nodes: int
    images: int
    missing: int
    dropped: tuple[str, ...] = ()


def bundles(lake: Any, chosen: Sequence[Trajectory], whole: Sequence[str], *, alone: bool = False) -> Iterator[Bundle]:
    """One bundle for each tree of the chosen trajectories, its run told in full by the first.

    Args:
        lake: an open lake.
        chosen: the trajectories.
        whole: runs whose trees go out whole: branches that no trajectory ends on, too.
        alone: leave out the walks of the other agents of an episode.
    """
    trees: dict[tuple[str, str], list[Trajectory]] = {}
    for trajectory in chosen:
        trees.setdefault((trajectory.run_id, trajectory.tree_id), []).append(trajectory)
    for run_id in whole:
        for tree_id in _tree_ids(lake, run_id):
            trees.setdefault((run_id, tree_id), [])
    tasks: dict[str, dict[str, Task]] = {}
    told: set[str] = set()
    judged: dict[str, dict[str, list[Supervision]]] = {}
    for (run_id, tree_id), trajectories in trees.items():
        if run_id not in judged:
            about: dict[str, list[Supervision]] = {}
            for supervision in lake.supervisions(run_id=run_id):
                about.setdefault(supervision.node_id, []).append(supervision)
            judged[run_id] = about
            tasks[run_id] = {task.id: task.owned_by("") for task in lake.tasks(run_id=run_id)}
        if run_id in whole:
            nodes = sorted(lake.nodes(tree_id=tree_id), key=lambda node: (node.depth, node.slot, node.id))
        else:
            nodes = list({node.id: node for each in trajectories for node in _walk(lake, each, alone)}.values())
        used = {trajectory.task_id for trajectory in trajectories}
        yield Bundle(
            run=Run(id=run_id) if run_id in told else lake.run(run_id) or Run(id=run_id),
            tasks=tuple(tasks[run_id][name] for name in sorted(used) if name in tasks[run_id]),
            trajectories=tuple(sorted(trajectories, key=lambda each: (each.index, each.attempt))),
            nodes=tuple(nodes),
            supervisions=tuple(s for node in nodes for s in judged[run_id].get(node.id, ())),
        )
        told.add(run_id)


def _walk(lake: Any, trajectory: Trajectory, alone: bool) -> tuple[Node, ...]:
    """The trajectory's turns, and those of every other agent of its episode; none of a torn one, which the format then
    refuses by name."""
    others = [] if alone else [in_role(trajectory, role) for role in roles_of(trajectory)]
    try:
        return tuple(node for each in (trajectory, *others) if each.leaf_id for node in lake.walk(each))
    except StoreError:
        return ()


def export(lake: Any, name: str, given: Callable[[], Iterable[Bundle]], output: Path | None, force: bool) -> Exported:
    """Write bundles to a file (None: standard output). Images go into it where the format carries them there.

    All others are written to `images/` beside it. A trajectory that the format cannot hold, or that the lake has torn,
    drops out by name; the others are written.

    Args:
        lake: an open lake.
        name: the format.
        given: gives the bundles; asked again where one of them cannot be written.
        output: the file.
        force: whether a file that is there is replaced.

    Raises:
        UsageError: the file is there already, or its folder is not, or the format can hold none of the trajectories.
    """
    try:
        return _export(lake, name, given(), output, force)
    except FormatError as error:
        dropped: list[str] = []
        kept = [left for bundle in given() if (left := _writable(name, bundle, dropped)) is not None]
        if not dropped or not any(bundle.trajectories or bundle.nodes for bundle in kept):
            raise UsageError(f"{name} can hold none of it: {error}") from error
        return msgspec.structs.replace(_export(lake, name, kept, output, force), dropped=tuple(dropped))


def _writable(name: str, bundle: Bundle, dropped: list[str]) -> Bundle | None:
    """The bundle without the trajectories that the format cannot hold, each of which is tried by itself."""
    kept: list[Trajectory] = []
    for trajectory in bundle.trajectories:
        try:
            walk = bundle.walk(trajectory)
            alone = msgspec.structs.replace(bundle, trajectories=(trajectory,), nodes=walk, supervisions=())
            for _ in write(name, [alone]):
                pass
            kept.append(trajectory)
        except KeyError as error:
            dropped.append(f"trajectory {trajectory.id[:12]}: its node {str(error.args[0])[:12]} is not in the lake")
        except FormatError as error:
            dropped.append(f"trajectory {trajectory.id[:12]}: {error}")
    left = msgspec.structs.replace(bundle, trajectories=tuple(kept))
    if len(kept) < len(bundle.trajectories):
        walked = {node.id for trajectory in kept for node in bundle.walk(trajectory)}
        nodes = tuple(node for node in bundle.nodes if node.id in walked)
        judged = tuple(each for each in bundle.supervisions if each.node_id in walked)
        left = msgspec.structs.replace(left, nodes=nodes, supervisions=judged)
    return left if left.trajectories or left.nodes else None


def _export(lake: Any, name: str, given: Iterable[Bundle], output: Path | None, force: bool) -> Exported:
    counts = {"trajectories": 0, "nodes": 0}
    pictures: dict[str, ImagePart] = {}
    inside: set[str] = set()
    embeds = find(name).embeds

    def counted() -> Iterator[Bundle]:
        for bundle in given:
            if embeds:
                bundle = msgspec.structs.replace(bundle, blobs=_blobs(lake, bundle))
                inside.update(_embedded(bundle, embeds))
            counts["trajectories"] += len(bundle.trajectories)
            counts["nodes"] += len(bundle.nodes)
            pictures.update({part.hash: part for part in images_of(bundle.nodes)})
            yield bundle

    pieces = (piece.encode() if isinstance(piece, str) else piece for piece in write(name, counted()))
    if output is None:
        with tempfile.SpooledTemporaryFile(max_size=_SPOOLED) as spool:  # nothing half written goes into a pipe
            spool.writelines(pieces)
            spool.seek(0)
            shutil.copyfileobj(spool, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return Exported(
            counts["trajectories"], counts["nodes"], images=len(inside), missing=len(pictures) - len(inside)
        )
    _save(pieces, output, force)
    beside = [part for part in pictures.values() if part.hash not in inside]
    written = sum(_picture(lake, part, output.parent) for part in beside)
    return Exported(
        counts["trajectories"], counts["nodes"], images=written + len(inside), missing=len(beside) - written
    )


def images_of(nodes: Iterable[Node]) -> Iterator[ImagePart]:
    """The pictures that nodes show."""
    for node in nodes:
        yield from (part for part in node.message.parts if isinstance(part, ImagePart))


def _blobs(lake: Any, bundle: Bundle) -> dict[str, bytes]:
    found = {part.hash: _blob(lake, part) for part in images_of(bundle.nodes)}
    return {name: data for name, data in found.items() if data is not None}


def _embedded(bundle: Bundle, roles: Sequence[Role]) -> Iterator[str]:
    """The pictures a format that carries those of `roles` holds inside: what stands on no walk is only named there."""
    try:
        walked = {node.id for trajectory in bundle.trajectories for node in bundle.walk(trajectory)}
    except KeyError:
        return  # the format refuses a torn walk by name
    shown = (node for node in bundle.nodes if node.id in walked and node.message.role in roles)
    yield from (part.hash for part in images_of(shown) if part.hash in bundle.blobs)


def _tree_ids(lake: Any, run_id: str) -> list[str]:
    literal = run_id.replace("'", "''")
    table = lake.sql(f"select distinct tree_id from nodes where run_id = '{literal}' order by tree_id")
    return [str(value) for value in table.column("tree_id").to_pylist()]


def _save(pieces: Iterable[bytes], output: Path, force: bool) -> None:
    if output.exists() and not force:
        raise UsageError(f"{output}: is there already; add --force to replace it")
    try:
        descriptor, name = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
    except OSError as error:
        raise UsageError(f"{output}: cannot be written ({error.strerror})") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            for piece in pieces:
                file.write(piece)
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)  # what open() would have given; mkstemp keeps others out
        Path(name).replace(output)
    except OSError as error:
        raise UsageError(f"{output}: cannot be written ({error.strerror})") from error
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()


def _picture(lake: Any, part: ImagePart, folder: Path) -> bool:
    path = folder / reference(part)
    if path.exists():
        return True
    data = _blob(lake, part)
    if data is None:
        return False
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return True


def _blob(lake: Any, part: ImagePart) -> bytes | None:
    try:
        return lake.get_blob(part.hash)
    except (StoreError, UsageError):
        return None  # counted as missing and told


def format_of(name: str | None, output: Path | None) -> str:
    """The format asked for, or the one that goes with the file's ending.

    Raises:
        UsageError: unknown, read only, or neither said nor to be seen.
    """
    if name is not None:
        if find(name).write is None:
            raise UsageError(f"{name} is read only; to write there are {', '.join(WRITABLE)}")
        return name
    # Where several formats share an ending, the first of them is meant.
    by_ending = {FORMATS[each].ending: each for each in reversed(WRITABLE)}
    ending = output.suffix if output is not None else ""
    if ending not in by_ending:
        raise UsageError(f"which format? add --format {', '.join(WRITABLE[:-1])} or {WRITABLE[-1]}")
    return by_ending[ending]
