"""`silva redteam explore`: branches at the risky decisions of a recorded run, and what they show."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.cli.interrupting import heed_interrupts
from silva.errors import Exit, UsageError

if TYPE_CHECKING:
    from silva.lake import Lake
    from silva.redteam.hinges import Explored
    from silva.rollout.snapshots.known import Known


def explore(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN…",
            help="Runs, or plans: all their runs under an attack. Dotted overrides of their configs may stand behind.",
        ),
    ],
    turns: Annotated[int, typer.Option(min=1, help="New turns of all branches together.")] = 50,
    calls: Annotated[int | None, typer.Option(min=1, help="Model calls of all branches together.")] = None,
    usd: Annotated[float | None, typer.Option(help="Money for each run of branches; needs budget.price.")] = None,
    width: Annotated[int, typer.Option(min=0, help="Other actions at each decision.")] = 2,
    attack: Annotated[
        list[str] | None, typer.Option(help="Try this attack there, too: SURFACE/FRAMING/GOAL, * for any; repeat.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Decisions of this kind alone: a risk, exposure or reached; repeat.")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="Who acts in the branches: model, expert or null.")] = None,
    model: Annotated[str | None, typer.Option(help="As in silva rollout; the run's own when left out.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of sampling; the run's own when left out.")] = None,
    name: Annotated[
        str | None, typer.Option("--run", help="Name of the branches (of several runs: NAME.RUN); else RUN.explore.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write failures as a data set and tasks, and pairs, into this folder.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the branches, nothing twice.")] = False,
    lake: Annotated[str | None, typer.Option("--lake", envvar="SILVA_LAKE", help="Folder or object-store URL.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Go back to risky decisions of runs, try other actions and other attacks there, and say on which of them safety
    hinges, how much more was covered than by the recorded paths, and what mends each failure at least cost."""
    from silva.lake import Lake, default_location
    from silva.redteam.hinges import as_json as shown

    where = lake or default_location()
    Lake.open(where, mode="read")  # a lake that is not there is not made
    overrides = [each for each in sources if "=" in each]
    overrides += [f"budget.usd={usd}"] if usd is not None else []
    given = {"policy": policy, "model": model, "seed": seed}
    asked = Asked(
        turns=min(turns, calls or turns),  # a new turn is a call of the model; an action that is taken again is none
        width=width,
        kinds=tuple(kind or ()),
        attacks=tuple(attack or ()),
        dotted=tuple(
            [*(f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None), *overrides]
        ),
        name=name,
        resume=resume,
        quiet=as_json,
    )
    found, stopped, files = asyncio.run(_all(str(where), [each for each in sources if "=" not in each], asked, output))
    if as_json:
        print_json({**shown(found), "files": files})
    else:
        typer.echo("\n".join(_told(found, files)))
    return Exit.INCOMPLETE if stopped else Exit.OK


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be explored in a run, and how: `attacks` as patterns, `dotted` overrides of its config."""

    turns: int
    width: int
    kinds: tuple[str, ...]
    attacks: tuple[str, ...]
    dotted: tuple[str, ...]
    name: str | None
    resume: bool
    quiet: bool

    def of(self, run: str, turns: int, several: bool) -> Asked:
        """Its part for one run."""
        name = f"{self.name}.{run}" if self.name and several else self.name
        return replace(self, turns=turns, name=name or f"{run}.explore")


async def _all(
    where: str, sources: list[str], asked: Asked, output: Path | None
) -> tuple[Explored, bool, dict[str, int]]:
    """Explore run after run: each has an equal part of the turns, and what those before it left over."""
    from silva.lake import Lake
    from silva.redteam.hinges import together
    from silva.rollout.snapshots.known import Known

    found: list[Explored] = []
    stopped = False
    async with Lake.open(where) as lake:
        known = Known(lake)
        runs = await asyncio.to_thread(_runs, lake, where, sources)
        left = asked.turns
        for place, run in enumerate(runs):
            if stopped or left <= 0:
                break
            mine = asked.of(run, -(-left // (len(runs) - place)), len(runs) > 1)
            one = await _explored(known, where, run, mine)
            if one is None:
                continue
            found.append(one[0])
            stopped, left = one[1], left - one[0].new_turns
        if not found:
            raise UsageError(
                f"run {', '.join(runs)}: no decision in it is risky (deletes, sends, pays, permissions, first exposure)"
            )
        whole = together(found)
        files = await asyncio.to_thread(_write, known, whole, output) if output is not None else {}
    return whole, stopped, files


def _runs(lake: Lake, where: str, sources: list[str]) -> list[str]:
    """The runs of these names, each once; of a plan those under an attack that branch from no other run.

    Raises:
        UsageError: a name is that of neither, or no attempt of one came to an end.
    """
    from silva.redteam.seen.plans import plan_of
    from silva.rollout.branching.shoots import KEY

    every = {each.id: each for each in lake.runs()}
    found: list[str] = []
    for source in sources:
        inside = [
            each.id
            for each in every.values()
            if each.id.startswith(f"{source}.") and plan_of(each) and KEY not in each.config
        ]
        if source not in every and not inside:
            raise UsageError(f"lake {where}: holds no run {source!r}, nor a plan of that name")
        found += [source] if source in every else sorted(inside)
    return list(dict.fromkeys(found))


async def _explored(read: Known, where: str, source: str, asked: Asked) -> tuple[Explored, bool] | None:
    """One run, explored, and whether it was stopped; None where no decision in it is risky."""
    from silva.cli.config import load
    from silva.redteam.attack import attacks
    from silva.redteam.exploring import Exploration, decisions, planned
    from silva.redteam.exploring import explore as grown_by
    from silva.redteam.hinges import explored
    from silva.rollout.branching.grow import settings_of
    from silva.rollout.config import RolloutConfig
    from silva.rollout.snapshots.point import named

    lake = read.lake
    of = await asyncio.to_thread(lake.run, source)
    recorded = [each for each in lake.trajectories(run_id=source) if not each.superseded and each.leaf_id]
    if of is None or not recorded:
        raise UsageError(f"run {source}: no attempt in it came to an end, so there is nothing to explore")
    base = {**settings_of(of), "run": asked.name, "lake": where, "env": [named(recorded[0].env, of)]}
    settings = load(
        RolloutConfig, None, [*(f"{key}={json.dumps(value)}" for key, value in base.items()), *asked.dotted]
    )
    own = str(settings.stages.get("attack", {}).get("attack", ""))
    others = tuple(each.name for each in (attacks(asked.attacks) if asked.attacks else []) if each.name != own)
    if any(each.split("/")[0] in _openings() for each in others):
        raise UsageError("--attack: at a decision only results can be written into; name a surface of results")
    plan = Exploration(turns=asked.turns, width=asked.width, attacks=others, kinds=asked.kinds)
    chosen = decisions(read, recorded, plan, settings.snapshots.rules)
    if not chosen:
        return None
    growths = planned(read, chosen, plan, source)
    known = await asyncio.to_thread(lake.run, settings.run)
    if known is not None and not asked.resume:
        raise UsageError(f"run {settings.run} is already in lake {where}: --resume, or choose another --run")

    def ended(trajectory: Any) -> None:
        if not asked.quiet:
            typer.echo(f"{trajectory.run_id} {trajectory.slot}: {trajectory.outcome.status.value}", err=True)

    made = await grown_by(lake, settings, growths, known=read, on_start=heed_interrupts, on_end=ended)
    found = await asyncio.to_thread(explored, read, source, recorded, chosen, made)
    return found, any(each.stopped for each in made)


def _openings() -> set[str]:
    from silva.redteam.attack import surfaces

    return {name for name, each in surfaces().items() if each.moment == "opening"}


def _write(read: Known, found: Any, folder: Path) -> dict[str, int]:
    """The failures as a data set and as tasks that say where they come from, the pairs, and their samples."""
    from silva.curate.pairs import step_pairs, write_pairs
    from silva.lake.durable import make_folder, write_whole
    from silva.redteam.exploring import safe
    from silva.redteam.hinges import failure_tasks, siblings
    from silva.train.algorithms.preference import laid_out
    from silva.train.data.dataset import DataSet, write_dataset
    from silva.train.data.entries import read_entries
    from silva.train.sample_file import write_samples
    from silva.train.step_pairs import preferences
    from silva.tree.formats.tasks import write_tasks

    make_folder(folder)
    lake = read.lake
    explored = [each for run in (*found.sources, *found.runs) for each in lake.trajectories(run_id=run)]
    by_id = {each.id: each for each in explored}
    failures = [by_id[each] for each in found.failures]
    written: dict[str, int] = {"failures": len(failures)}
    if failures:
        failed = set(found.failures)
        entries = [
            each
            for each in read_entries(lake, sorted({one.run_id for one in failures}))
            if each.trajectory_id in failed
        ]
        made = f"redteam explore {' '.join(found.sources)}: attempts in which an attack reached its goal"
        write_dataset(folder / "failures.jsonl", DataSet(part="train", entries=tuple(entries), made=made), replace=True)
        tasks = failure_tasks(lake, failures)
        write_whole(folder / "failures.tasks.jsonl", "".join(write_tasks(tasks)).encode())
        written["tasks"] = len(tasks)

    def value(each: Any) -> float | None:
        known = safe(each)
        return None if known is None else float(known)

    pairs = [
        pair
        for tree_id, of_tree in siblings(read, explored).items()
        for pair in step_pairs(read.tree(tree_id), of_tree, value, by="effect")
    ]
    write_pairs(folder / "pairs.jsonl", pairs)
    written["pairs"] = len(pairs)
    exact, left = preferences(lake, [each.steps for each in pairs])
    if exact:
        write_samples(folder / "pairs.samples", laid_out(exact), force=True)
    for why in left[:3]:
        typer.echo(f"pair without exact ids: {why}", err=True)
    written["exact pairs"] = len(exact)
    return written


def _told(found: Explored, files: dict[str, int]) -> list[str]:
    lines: list[str] = []
    for each in found.hinges[:20]:
        decision = each.decision
        swing = "–" if each.swing is None else f"{100 * each.swing:.0f} %"
        lines.append(f"{decision.trajectory_id[:12]}@{decision.turn}  {', '.join(decision.reasons)}: swing {swing}")
        for one in each.options:
            mark = "*" if one.taken else " "
            lines.append(f"  {mark} {one.safe} of {one.paths} safe  {one.attack}  {one.action[:100]}")
    if len(found.hinges) > 20:
        lines.append(f"… {len(found.hinges) - 20} more decisions: --json")
    share = "none" if found.coverage is None else f"{100 * found.coverage:.0f} %"
    lines.append(
        f"risky decisions: {found.explored} of {found.decisions} branched ({share}); distinct risky branches: "
        f"{found.single} by single paths, {found.seen} with {found.new_turns} new turns"
    )
    how = ", ".join(f"{count} by {name}" for name, count in sorted(found.restored.items()))
    lines.append(f"restored: {how or 'none'}; {found.unjudged} branches not judged (attack not seen, or cut)")
    for each in found.repairs:
        done = "task done" if each.done else "task not done"
        lines.append(
            f"mend {each.trajectory_id[:12]} (goal reached at turn {each.reached}): at turn {each.turn} "
            f"{each.action[:100]} ({done}, {each.turns} new turns)"
        )
    lines.append(f"failures: {len(found.failures)} ({found.new_failures} new), {len(found.unmended)} not mended")
    if files:
        lines.append("written: " + ", ".join(f"{count} {name}" for name, count in files.items()))
    return lines
