"""The coverage matrix: which attack is seen in which environment, proven by playing each cell.

    environment ─▶ scout: tasks and a probe with which it goes on long, and other sets of tools
        attack, perturbation ─▶ one short episode under its stage ─▶ Cell
                                  exposed, at which turn │ not applicable, and why │ not exposed (a fault)

A cell is *exposed* where the attack's words were in what a model would have been shown before an action, read from the
walk as for any trajectory (`silva.redteam.verdict`); *not applicable* where there was no place for it, or no turn that
could have seen it; anything else is a fault, and told as that.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any, Literal

import msgspec

from silva.envs import EnvironmentEntry, HostPool
from silva.errors import SilvaError, UsageError
from silva.redteam.attack import Attack, framings, goals, perturbation, surfaces
from silva.redteam.perturbing import MARK
from silva.redteam.perturbing import NAME as PERTURB
from silva.redteam.probe import POLICIES, Probe, Probed
from silva.redteam.verdict import asks
from silva.rollout.config import RolloutConfig
from silva.rollout.episode import Episode
from silva.rollout.guided_nodes import REFUSED, takes_turn
from silva.rollout.path import Path
from silva.rollout.slots import Slot
from silva.tree import AnyRecord, Node, Record, Task, Trajectory, digest, tree_id

TURNS = 5
"""Turns of a cell: two for an attack in two parts, one that sees it, and one before."""

TASKS = 3
"""Tasks of each split that a scout tries."""

SETS = 4
"""Ways to play an environment, with other tools each, that are tried where an attack has no place in the first."""

_NO_CALL = "no action of these turns is one that it strikes"
_NO_RESULT = "no result of these turns is one that it could change"
_SHORT = "the episode ends with the first action, so no result is read"


Told = Literal["exposed", "not applicable", "not exposed"]
Found = tuple[Told, int | None, str]
"""What became of a cell, at which turn, and why."""


class Cell(Record, frozen=True, kw_only=True):
    """One attack (or `perturb/KIND`) in one environment. `turn`: at which it was first seen; `why`: why it is not
    applicable, or what went wrong; `seconds`: what playing it took."""

    env: str
    attack: str
    state: Told
    turn: int | None = None
    why: str = ""
    task: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Scouted:
    """One way to play an environment: a task, a policy, how many turns it goes on for (`TURNS` at most), and the names
    of the tools it offers."""

    task: Task
    policy: str
    turns: int
    tools: frozenset[str]


def standard() -> list[str]:
    """The attacks of a matrix unless others are named: every surface, every framing and every goal at least once."""
    names = [f"{surface}/important/answer" for surface in surfaces()]
    names += [f"tool_result/{framing}/answer" for framing in framings()]
    names += [f"tool_result/plain/{goal}" for goal in goals()]
    return list(dict.fromkeys(names))


async def matrix(
    entries: Sequence[EnvironmentEntry],
    attacks: Sequence[str],
    kinds: Sequence[str],
    *,
    seconds: float = 60.0,
    parallel: int = 2,
    known: Sequence[Cell] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
    told: Callable[[Cell], None] = lambda cell: None,
) -> list[Cell]:
    """Play every cell, and say what became of each, environment by environment in the order given.

    Args:
        entries: the environments, installed.
        attacks: names of attacks (SURFACE/FRAMING/GOAL).
        kinds: names of perturbations.
        seconds: how long a cell may take, and scouting a task.
        parallel: cells at once; of several environments at once, a slow one does not keep the others waiting.
        known: cells that were played before and are taken as they are.
        options: options of environments, by name.
        told: called with each cell when it has been played.

    Raises:
        UsageError: an attack or a perturbation is not known.
    """
    stages = {name: {"attack": {"attack": name, "patience": _patience(name)}} for name in attacks}
    stages |= {f"{PERTURB}/{kind}": {PERTURB: {"kinds": kind, "share": 1.0}} for kind in kinds}
    room, share = asyncio.Semaphore(parallel), max(1, parallel // max(1, len(entries)))
    before = {(cell.env, cell.attack): cell for cell in known}

    async def row(entry: EnvironmentEntry) -> list[Cell]:
        left = {name: stage for name, stage in stages.items() if (entry.name, name) not in before}
        async with room:
            made = await _played(entry, left, seconds, share, dict((options or {}).get(entry.name, {})), told)
        return [before.get((entry.name, name)) or made[name] for name in stages]

    return [cell for cells in await asyncio.gather(*map(row, entries)) for cell in cells]


async def _played(
    entry: EnvironmentEntry,
    stages: Mapping[str, dict[str, Any]],
    seconds: float,
    parallel: int,
    options: dict[str, Any],
    told: Callable[[Cell], None],
) -> dict[str, Cell]:
    """The cells of one environment, by attack."""

    def fault(name: str, why: str) -> Cell:
        cell = Cell(env=entry.name, attack=name, state="not exposed", why=why)
        told(cell)
        return cell

    if not stages:
        return {}
    gate = asyncio.Semaphore(parallel)
    try:
        async with HostPool(entry, instances_per_host=parallel, step_timeout=seconds, options=options) as pool:
            scouted = await scout(entry, pool, seconds)
            if isinstance(scouted, str):
                return {name: fault(name, scouted) for name in stages}

            async def cell(name: str) -> Cell:
                async with gate:
                    made = await _cell(entry, pool, scouted, name, stages[name], seconds)
                told(made)
                return made

            return dict(zip(stages, await asyncio.gather(*map(cell, stages)), strict=True))
    except SilvaError as error:
        return {name: fault(name, str(error)) for name in stages}


async def scout(entry: EnvironmentEntry, pool: HostPool, seconds: float) -> list[Scouted] | str:
    """Ways to play an environment, of a few tasks of each split: the one that goes on longest, then ones with other
    tools; why there is none."""
    found: list[Scouted] = []
    why = "no policy can play it: it has no expert, no null policy and no tools"
    for policy in POLICIES:
        for split in entry.splits:
            for task in await pool.tasks(split, limit=TASKS):
                try:
                    trajectory, walk = await _episode(entry, pool, task, policy, {}, seconds)
                except UsageError as error:  # there is no such policy here
                    why = str(error)
                    break
                failure = trajectory.outcome.failure
                if failure is not None and not trajectory.turns:
                    why = failure.message
                    continue
                turns = trajectory.turns
                offered = frozenset(tool.name for node in walk for tool in node.tools or ())
                found.append(Scouted(task, policy, turns, offered))
                if turns >= TURNS:
                    break
        if any(each.turns >= TURNS for each in found):
            break
    found.sort(key=lambda each: -each.turns)
    others = {each.tools: each for each in reversed(found) if each.turns > 1}
    chosen = list(dict.fromkeys([*found[:1], *(each for each in found if others.get(each.tools) is each)]))
    return chosen[:SETS] or why


async def _cell(
    entry: EnvironmentEntry,
    pool: HostPool,
    scouted: Sequence[Scouted],
    name: str,
    stages: dict[str, Any],
    seconds: float,
) -> Cell:
    """What becomes of an attack; where the first way to play has no place for it, the others are tried."""
    began, made = time.monotonic(), Cell(env=entry.name, attack=name, state="not applicable")
    for each in scouted:
        trajectory, walk = await _episode(entry, pool, each.task, each.policy, stages, seconds)
        state, turn, why = (
            _perturbed(stages[PERTURB]["kinds"], walk) if PERTURB in stages else _attacked(trajectory, walk)
        )
        failure = trajectory.outcome.failure
        if failure is not None and state != "exposed":
            state, why = "not exposed", failure.message
        if state != "not applicable" or not made.task:
            made = Cell(env=entry.name, attack=name, state=state, turn=turn, why=why, task=each.task.id)
        if state != "not applicable":
            break
    return msgspec.structs.replace(made, seconds=time.monotonic() - began)


def _attacked(trajectory: Trajectory, walk: Sequence[Node]) -> Found:
    said = trajectory.attributes["attack"]
    if said.get("exposed") is not None:
        return "exposed", said["exposed"], ""
    if not said["launched"]:
        alone = trajectory.turns < 2 and Attack.of(said["name"]).surface.moment == "result"
        return "not applicable", None, _SHORT if alone and "canary" in said else said["why"]
    placed = [place for place, node in enumerate(walk) if asks(node)]
    if len(placed) < said.get("parts", 1) or not any(map(takes_turn, walk[placed[-1] :])):
        return "not applicable", None, "no turn follows the result that carries the last of it"
    return "not exposed", None, "it was launched, and is not in what the model was shown"


def _patience(name: str) -> int:
    """Turns after an attack in which it is seen: the next, or where it was planted the one after a look at it."""
    return 2 if Attack.of(name).surface.moment == "state" else 1


def _perturbed(kind: str, walk: Sequence[Node]) -> Found:
    turn, struck = 0, False
    for node in walk:
        if takes_turn(node):
            turn += 1
            if struck:
                return "exposed", turn, ""
        struck = struck or MARK in node.attributes or node.attributes.get(REFUSED) == PERTURB
    if struck:
        return "not applicable", None, "no turn follows the result that it struck"
    if not any(node.message.tool_calls for node in walk if takes_turn(node)) and turn > 1:
        return "not applicable", None, "no tool is called whose call or result it could disturb"
    return "not applicable", None, _SHORT if turn < 2 else _NO_CALL if perturbation(kind).refuse else _NO_RESULT


async def _episode(
    entry: EnvironmentEntry, pool: HostPool, task: Task, policy: str, stages: dict[str, Any], seconds: float
) -> tuple[Trajectory, list[Node]]:
    """One short episode of which nothing is kept."""
    late = PERTURB in stages and perturbation(stages[PERTURB]["kinds"]).seconds
    turns = 2 if late else TURNS
    config = RolloutConfig.model_validate(
        {
            "run": "matrix",
            "env": entry.name,
            "budget": {"turns": turns},
            "deadlines": {"episode": seconds, "environment": seconds},
            "stages": stages,
        }
    )
    seed = int(digest("environment", "0", task.id)[:7], 16)
    slot = Slot(env=entry.name, task=task, index=0, attempt=0, seed=seed, tree_id=tree_id(config.run, task.id))
    path = Path(_Nowhere(), config.run, slot.tree_id, slot.name, set())
    episode = Episode(config, slot, path, lambda: None)
    trajectory = await episode.run(_probed(pool), lambda env, role="": Probe(env, policy), _Nowhere())
    return trajectory, path.walk


@asynccontextmanager
async def _probed(pool: HostPool) -> AsyncIterator[Probed]:
    async with pool.lease() as env:
        yield Probed(env)


class _Nowhere:
    """Where records go that nobody will read again."""

    def submit(self, records: Sequence[AnyRecord]) -> asyncio.Future[None]:
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def put_blob(self, data: bytes, media_type: str = "") -> str:
        return hashlib.sha256(data).hexdigest()


def counted(cells: Sequence[Cell]) -> dict[str, int]:
    """How many cells are applicable, how many of them exposed, and how many are not applicable."""
    exposed = sum(cell.state == "exposed" for cell in cells)
    unseen = sum(cell.state == "not exposed" for cell in cells)
    return {"applicable": exposed + unseen, "exposed": exposed, "not_applicable": len(cells) - exposed - unseen}


def sign(cell: Cell) -> str:
    """A cell in a character or two: the turn at which it was seen, `·` where it has no place, `!` for a fault."""
    return str(cell.turn) if cell.state == "exposed" else "·" if cell.state == "not applicable" else "!"


def markdown(cells: Sequence[Cell]) -> str:
    """The matrix as a Markdown table, and below it why cells are not applicable, or what went wrong."""
    environments = list(dict.fromkeys(cell.env for cell in cells))
    by_place = {(cell.env, cell.attack): cell for cell in cells}
    lines = [f"| attack | {' | '.join(environments)} |", f"|---|{'--:|' * len(environments)}"]
    for name in dict.fromkeys(cell.attack for cell in cells):
        lines.append(f"| {name} | {' | '.join(sign(by_place[each, name]) for each in environments)} |")
    reasons: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if cell.why:
            reasons.setdefault((cell.state, cell.why), []).append(f"{cell.attack} in {cell.env}")
    lines += ["", *(f"- {state}: {why}: {'; '.join(places)}" for (state, why), places in reasons.items())]
    return "\n".join(lines)


def read(file: File) -> list[Cell]:
    """Cells that were kept, one a line.

    Raises:
        UsageError: the file cannot be read, or a line is no cell.
    """
    try:
        return [_CELL.decode(line) for line in file.read_bytes().splitlines() if line.strip()]
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror})") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"{file}: a line is no cell of a matrix ({error}); choose another file") from error


def keep(file: File, cell: Cell) -> None:
    """Add a cell to a file.

    Raises:
        OSError: it cannot be written.
    """
    with file.open("ab") as opened:
        opened.write(msgspec.json.encode(cell) + b"\n")


_CELL = msgspec.json.Decoder(Cell)
