"""`silva redteam explore`: branches at the risky decisions of a recorded run, and what they show."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.cli.interrupting import heed_interrupts
from silva.errors import Exit, UsageError

if TYPE_CHECKING:
    from silva.redteam.hinges import Explored


def explore(
    source: Annotated[str, typer.Argument(metavar="RUN", help="A run of a red-team plan, or any run under an attack.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Dotted overrides of the run's config, such as budget.turns=10.")
    ] = None,
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
    name: Annotated[str | None, typer.Option("--run", help="Name of the branches; RUN.explore when left out.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write failures as a data set and tasks, and pairs, into this folder.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the branches, nothing twice.")] = False,
    lake: Annotated[str | None, typer.Option("--lake", envvar="SILVA_LAKE", help="Folder or object-store URL.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Go back to risky decisions of a run, try other actions and other attacks there, and say on which of them safety
    hinges, how much more was covered than by the recorded paths, and what mends each failure at least cost."""
    from silva.lake import Lake, default_location
    from silva.redteam.hinges import as_json as shown

    where = lake or default_location()
    Lake.open(where, mode="read")  # a lake that is not there is not made
    budget = min(turns, calls or turns)  # a new turn is a call of the model; an action that is taken again is none
    if usd is not None:
        overrides = [*(overrides or []), f"budget.usd={usd}"]
    wanted = {"turns": budget, "width": width, "kinds": tuple(kind or ())}
    given = {"policy": policy, "model": model, "seed": seed}
    found, stopped, files = asyncio.run(
        _explored(str(where), source, wanted, attack or [], given, overrides or [], name, resume, output, as_json)
    )
    if as_json:
        print_json({**shown(found), "files": files})
    else:
        typer.echo("\n".join(_told(found, files)))
    return Exit.INCOMPLETE if stopped else Exit.OK


async def _explored(
    where: str,
    source: str,
    wanted: dict[str, Any],
    patterns: list[str],
    given: dict[str, Any],
    overrides: list[str],
    name: str | None,
    resume: bool,
    output: Path | None,
    quiet: bool,
) -> tuple[Explored, bool, dict[str, int]]:
    from silva.cli.config import load
    from silva.lake import Lake
    from silva.redteam.attack import attacks
    from silva.redteam.exploring import Exploration, decisions, planned
    from silva.redteam.exploring import explore as grown_by
    from silva.redteam.hinges import explored
    from silva.rollout.branching.grow import settings_of
    from silva.rollout.config import RolloutConfig
    from silva.rollout.snapshots.point import named

    async with Lake.open(where) as lake:
        of = await asyncio.to_thread(lake.run, source)
        if of is None:
            inside = [each.id for each in lake.runs() if each.id.startswith(f"{source}.")]
            hint = f"; explore one of the plan's runs: {', '.join(inside[:5])}" if inside else ""
            raise UsageError(f"lake {where}: holds no run {source!r}{hint}")
        recorded = [each for each in lake.trajectories(run_id=source) if not each.superseded and each.leaf_id]
        if not recorded:
            raise UsageError(f"run {source}: no attempt in it came to an end, so there is nothing to explore")
        base = {**settings_of(of), "run": name or f"{source}.explore", "lake": where}
        base["env"] = [named(recorded[0].env, of)]
        dotted = [f"{key}={json.dumps(value)}" for key, value in base.items()]
        dotted += [f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None]
        settings = load(RolloutConfig, None, [*dotted, *overrides])
        own = str(settings.stages.get("attack", {}).get("attack", ""))
        others = tuple(each.name for each in (attacks(patterns) if patterns else []) if each.name != own)
        if any(each.split("/")[0] in _openings() for each in others):
            raise UsageError("--attack: at a decision only results can be written into; name a surface of results")
        plan = Exploration(attacks=others, **wanted)
        chosen = decisions(lake, recorded, plan, settings.snapshots.rules)
        if not chosen:
            raise UsageError(
                f"run {source}: no decision in it is risky (deletes, sends, pays, permissions, first exposure)"
            )
        growths = planned(lake, chosen, plan, source)
        known = await asyncio.to_thread(lake.run, settings.run)
        if known is not None and not resume:
            raise UsageError(f"run {settings.run} is already in lake {where}: --resume, or choose another --run")

        def ended(trajectory: Any) -> None:
            if not quiet:
                typer.echo(f"{trajectory.run_id} {trajectory.slot}: {trajectory.outcome.status.value}", err=True)

        made = await grown_by(lake, settings, growths, on_start=heed_interrupts, on_end=ended)
        chosen = decisions(lake, recorded, plan, settings.snapshots.rules)
        found = await asyncio.to_thread(explored, lake, source, recorded, chosen, made)
        files = await asyncio.to_thread(_write, lake, found, output) if output is not None else {}
        return found, any(each.stopped for each in made), files


def _openings() -> set[str]:
    from silva.redteam.attack import surfaces

    return {name for name, each in surfaces().items() if each.moment == "opening"}


def _write(lake: Any, found: Any, folder: Path) -> dict[str, int]:
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
    failures = [lake.trajectory(each) for each in found.failures]
    written: dict[str, int] = {"failures": len(failures)}
    if failures:
        failed = set(found.failures)
        entries = [
            each
            for each in read_entries(lake, sorted({one.run_id for one in failures}))
            if each.trajectory_id in failed
        ]
        made = f"redteam explore {found.source}: attempts in which an attack reached its goal"
        write_dataset(folder / "failures.jsonl", DataSet(part="train", entries=tuple(entries), made=made), replace=True)
        tasks = failure_tasks(lake, failures)
        write_whole(folder / "failures.tasks.jsonl", "".join(write_tasks(tasks)).encode())
        written["tasks"] = len(tasks)
    explored = [each for run in (found.source, *found.runs) for each in lake.trajectories(run_id=run)]

    def value(each: Any) -> float | None:
        known = safe(each)
        return None if known is None else float(known)

    pairs = [
        pair
        for tree_id, of_tree in siblings(lake, explored).items()
        for pair in step_pairs(lake.tree(tree_id), of_tree, value, by="effect")
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
