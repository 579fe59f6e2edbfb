"""One growth: from contexts to candidates that may become tasks, on live environments.

contexts ─▶ explore (a run of branches) ──────┬▶ abstracter ─┐
places ─▶ writer ─▶ the policy attempts each ─┴──────────────┴▶ candidates, in turn ─▶ admission ─▶ tasks, with how
                                                                                                    they came
An attempt at what a writer says is an exploration, too: most environments end a walk where its task is done, so that
who explores under a task that it can do sees nothing behind it.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence, Set
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import msgspec

from silva.envs import EnvError, HostPool
from silva.envs import Registry as Environments
from silva.envs.handle import EnvironmentHandle
from silva.errors import UsageError
from silva.lake import Lake
from silva.loops.coevolve.config import CoEvolveConfig
from silva.loops.coevolve.tasks import held_out
from silva.loops.kernel.loop import Loop
from silva.loops.roles import Candidate, Context, Explored, Held, Walk, admit, born, explore, make
from silva.loops.roles.held import opening_of
from silva.rollout import RolloutConfig
from silva.rollout.guided_nodes import not_taken, takes_turn
from silva.rollout.run import host_pool
from silva.tree import Message, Node, Status, Task, Trajectory, digest


@dataclass(kw_only=True)
class Growing:
    """What a growth has come to. `openings`: what an agent is shown first of each accepted task, and of what is held
    out."""

    explored: Explored | None = None
    candidates: list[Candidate] = field(default_factory=list[Candidate])
    steps: int = 0
    seconds: float = 0.0
    openings: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))


@asynccontextmanager
async def hosts(loop: Loop[CoEvolveConfig]) -> AsyncIterator[HostPool]:
    """Hosts of the loop's environment."""
    config = loop.config
    settings = RolloutConfig(
        env=(config.env,),
        hosts=config.play.hosts,
        deadlines=config.play.deadlines,
        options={config.env: config.play.options} if config.play.options else {},
    )
    async with host_pool(config.env, Environments.load().entry(config.env), settings) as pool:
        yield pool


async def offers(loop: Loop[CoEvolveConfig]) -> frozenset[str]:
    """What the environment can say of what was, and what can be, brought about in it."""
    async with hosts(loop) as pool, pool.lease() as env:
        return env.offers


async def walked(loop: Loop[CoEvolveConfig], base: RolloutConfig, contexts: Sequence[Context]) -> Explored:
    """Explore at the contexts, or go on with it.

    Raises:
        UsageError, UnreachableError, MissingError, StoreError, EnvError: as `silva.loops.roles.explore`.
    """
    grow = loop.config.grow
    explorer = make("explorer", grow.explorer.name, grow.explorer.options)
    async with Lake.open(loop.lake) as lake:
        return await explore(lake, base, explorer, contexts, grow.explore)


async def abstracted(loop: Loop[CoEvolveConfig], run: str, walks: Sequence[Walk]) -> list[Candidate]:
    """What walks brought about that might be a task of an exploration's run."""
    grow = loop.config.grow
    abstracter = make("abstracter", grow.abstracter.name, grow.abstracter.options)
    with Lake.open(loop.lake, mode="read") as lake:
        async with hosts(loop) as pool, pool.lease() as env:
            found = await abstracter.abstract(env, lake, walks)
    return [msgspec.structs.replace(each, source=msgspec.structs.replace(each.source, explored=run)) for each in found]


async def written(
    loop: Loop[CoEvolveConfig], explored: Explored, seed: int, known: Set[str]
) -> list[tuple[Candidate, Task | None]]:
    """Goals that the writer adds for the places that were explored, each with the task it would be; None where the
    place has no such goal. Those whose task is `known` are passed over."""
    grow = loop.config.grow
    if not grow.written:
        return []
    writer = make("writer", grow.writer.name, grow.writer.options)
    places = {walk.task.id: walk.task for walk in explored.walks}
    seen = {walk.task.id: walk.context for walk in explored.walks}
    found: list[tuple[Candidate, Task | None]] = []
    async with hosts(loop) as pool, pool.lease() as env:
        for name, place in sorted(places.items()):
            had = await _had(env, place, known)
            for each in await writer.write(env, place, grow.written, seed=seed, known=had):
                source = msgspec.structs.replace(
                    each.source,
                    explored=explored.run,
                    signal=seen[name].signal,
                    signal_id=seen[name].signal_id,
                    seen=seen[name].trajectory,
                )
                made = msgspec.structs.replace(each, source=source)
                try:
                    found.append((made, await env.task(place, each.goal)))
                except UsageError:
                    found.append((made, None))
    return found


async def _had(env: EnvironmentHandle, place: Task, known: Set[str]) -> list[str]:
    """Words of the goals of a place whose tasks are there already."""
    found = list[str]()
    for goal in await env.goals(place) if "synthesis" in env.offers else ():
        with suppress(UsageError, EnvError):  # not every place has each of them
            if (await env.task(place, goal)).id in known:
                found.append(goal.words)
    return found


def attempted(explored: Explored, candidate: Candidate, attempts: Iterable[Trajectory]) -> list[Walk]:
    """Attempts at what a writer said of a place that was explored, as walks from there; none where the writer made a
    place of its own."""
    if all(walk.task.id != candidate.place.id for walk in explored.walks):
        return []
    source = candidate.source
    context = Context(trajectory=source.seen, signal=source.signal, signal_id=source.signal_id)
    ended = [each for each in attempts if each.leaf_id is not None and each.outcome.status is not Status.FAILED]
    return [Walk(trajectory=each, context=context, task=candidate.place, before=0) for each in ended]


def successes(lake: Lake, attempts: Iterable[Trajectory]) -> dict[str, list[tuple[Trajectory, tuple[Node, ...]]]]:
    """Of each task the attempts that solved it, with their nodes."""
    won = [each for each in attempts if each.outcome.success and each.leaf_id is not None]
    found: dict[str, list[tuple[Trajectory, tuple[Node, ...]]]] = {}
    for each, nodes in zip(won, lake.walks(won), strict=True):
        found.setdefault(each.task_id, []).append((each, nodes))
    return found


def solved(candidate: Candidate, successes: Iterable[tuple[Trajectory, Sequence[Node]]]) -> Candidate:
    """The candidate with the shortest of the attempts that solved it as its solution; as it was where none did."""
    best: list[Message] | None = None
    source = candidate.source
    for each, nodes in successes:
        left = not_taken(nodes)
        taken = [node for node in nodes if takes_turn(node) and node.id not in left]
        if taken and (best is None or len(taken) < len(best)):
            best = [node.message for node in taken]
            source = msgspec.structs.replace(candidate.source, trajectory=each.id, node=taken[-1].id)
    if best is None:
        return candidate
    return msgspec.structs.replace(candidate, solution=tuple(best), source=source)


async def unknown(loop: Loop[CoEvolveConfig], candidates: Sequence[Candidate], known: Iterable[str]) -> list[Candidate]:
    """The candidates but those whose task is there already: later growths find again what earlier ones found, and only
    so many are judged."""
    there, found = set(known), list[Candidate]()
    async with hosts(loop) as pool, pool.lease() as env:
        for each in candidates:
            with suppress(UsageError, EnvError):  # validation says what is wrong with it
                if (await env.task(each.place, each.goal)).id in there:
                    continue
            found.append(each)
    return found


def ordered(
    candidates: Sequence[Candidate], seed: int, most: int, longest: bool = False, solved_first: bool = True
) -> list[Candidate]:
    """At most so many candidates, those of each signal in turn, and of each signal the goals' patterns in turn: what
    exploration brings about most often is not what is wanted most. Of one pattern as drawn by the seed, or those whose
    solutions are `longest` first. One goal of a place stands once. With `solved_first` what nobody could do comes
    behind all of them, so that it takes no place from what can be done."""

    def drawn(each: Candidate) -> str:
        return digest("new", str(seed), each.place.id, each.goal.words)

    found: dict[tuple[str, str], Candidate] = {}
    for each in sorted(candidates, key=lambda each: len(each.solution) or 1_000_000):
        found.setdefault((each.place.given.content, each.goal.words), each)
    those = sorted(found.values(), key=lambda each: (-len(each.solution) if longest else 0, drawn(each)))
    if not solved_first:
        return _of_kinds(those)[:most]
    solved, said = [each for each in those if each.solution], [each for each in those if not each.solution]
    return [*_of_kinds(solved), *_of_kinds(said)][:most]


def _of_kinds(candidates: Sequence[Candidate]) -> list[Candidate]:
    of_kind: defaultdict[str, defaultdict[str, list[Candidate]]] = defaultdict(lambda: defaultdict(list))
    for each in candidates:
        of_kind[each.source.signal][each.goal.pattern].append(each)
    return _in_turn([_in_turn(list(of_kind[kind].values())) for kind in sorted(of_kind)])


def _in_turn(queues: Sequence[Sequence[Candidate]]) -> list[Candidate]:
    return [each for row in zip_longest(*queues) for each in row if each is not None]


async def admitted(
    loop: Loop[CoEvolveConfig], run: str, candidates: Sequence[Candidate], round: int, known: Iterable[str]
) -> tuple[int, float]:
    """Validate the candidates and keep all of them as tasks of the run, accepted, waiting or refused; steps of the
    environment and seconds it took. What a killed stage has kept is not judged again."""
    began = time.monotonic()
    async with Lake.open(loop.lake) as lake:
        there = born(lake, run, round)
        if there:
            return sum(how.steps for _, how in there), sum(how.seconds for _, how in there)
        async with hosts(loop) as pool:
            async with pool.lease() as env:
                held = await Held.of(env, held_out(loop), loop.config.grow.admission.embedder)
            made = await admit(
                lake, run, pool, candidates, held, loop.config.grow.admission, round=round, known=set(known)
            )
    return made.steps, time.monotonic() - began


async def openings(loop: Loop[CoEvolveConfig], tasks: Sequence[Task]) -> list[str]:
    """What an agent is shown first of each task."""
    async with hosts(loop) as pool, pool.lease() as env:
        return [opening_of(await env.reset(task)) for task in tasks]


def by_signal(contexts: Sequence[Context], candidates: Sequence[Candidate], accepted: Sequence[Any]) -> dict[str, Any]:
    """From signals to tasks: contexts, candidates and accepted tasks of each kind of signal ("": of none)."""
    counts = (
        Counter(each.signal for each in contexts),
        Counter(each.source.signal for each in candidates),
        Counter(how.source.signal for how in accepted),
    )
    kinds = sorted(set[str]().union(*counts))
    return {
        kind: dict(zip(("contexts", "candidates", "accepted"), (count[kind] for count in counts), strict=True))
        for kind in kinds
    }
