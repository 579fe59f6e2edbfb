"""`silva trees branch` and `silva trees explore`: go back to a turn, try something else, see what comes of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from silva.cli.interrupting import heed_interrupts

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Branches of stored trees.")

Location = Annotated[
    str | None, typer.Option("--lake", envvar="SILVA_LAKE", help="Folder or s3://bucket/prefix; ./lake when left out.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Policy = Annotated[str | None, typer.Option(help="model, expert or null; as the tree's run had it when left out.")]
Model = Annotated[str | None, typer.Option(help="As in silva rollout; the run's own when left out.")]
Agent = Annotated[str | None, typer.Option(help="tools or react; the run's own when left out.")]
Env = Annotated[str | None, typer.Option(help="The environment, where it is registered by another name.")]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="Dotted overrides of the run's configuration, such as budget.turns=40.")
]
Accept = Annotated[
    bool, typer.Option("--accept-divergence", help="Go on where the environment does not repeat itself on the way.")
]
RunName = Annotated[str | None, typer.Option("--run", help="Name of the run of branches; by the clock if none.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run of branches named by --run, nothing twice.")]
Seed = Annotated[int | None, typer.Option(help="Seed of sampling; the run's own when left out.")]
Pool = Annotated[int, typer.Option(min=1, help="Branches in flight.")]
Report = Annotated[
    Path | None, typer.Option("--report", help="Write an HTML report here at the end, the trees drawn in it.")
]


@app.command()
def branch(
    node: Annotated[
        str, typer.Argument(metavar="NODE", help="A node's id or its beginning, or TRAJECTORY@TURN (-1: the last).")
    ] = "",
    overrides: Overrides = None,
    n: Annotated[
        int | None, typer.Option("--n", min=1, help="Branches; of each action where actions are given.")
    ] = None,
    action: Annotated[
        list[str] | None, typer.Option(help="First action: a call or message as JSON, else words; repeat for several.")
    ] = None,
    message: Annotated[str, typer.Option(help="What a person says before the branches go on.")] = "",
    instead: Annotated[
        bool, typer.Option("--instead", help="In the place of the node's action: begin before it, not after it.")
    ] = False,
    policy: Policy = None,
    model: Model = None,
    agent: Agent = None,
    env: Env = None,
    run: RunName = None,
    seed: Seed = None,
    pool: Pool = 16,
    accept_divergence: Accept = False,
    resume: Resume = False,
    report: Report = None,
    lake: Location = None,
    as_json: AsJson = False,
) -> int:
    """Restore a node's environment and messages, and continue down new paths; only new turns cost model calls."""
    from silva.errors import UsageError

    given = {"model": model, "policy": policy, "agent": agent, "seed": seed, "pool": pool}
    if resume:
        if run is None or action or message or instead:
            raise UsageError("--resume takes --run NAME, and what was asked for from the run's record")
        words = [*([node] if node else []), *(overrides or [])]
        grown = asyncio.run(_resumed(lake, run, {**given, "pool": None}, words, as_json))
    else:
        if not node:
            raise UsageError("which node? give its id, or TRAJECTORY@TURN; silva trees show TRAJECTORY shows the ids")
        wanted = {"n": n, "actions": action or [], "message": message, "instead": instead, "env": env}
        grown = asyncio.run(_branched(lake, node, wanted, run, {**given}, overrides or [], accept_divergence, as_json))
    from silva.cli.trees_branch_show import say_branches

    say_branches(grown.grown, grown.before, grown.lake, as_json)
    _report(grown.lake, grown.grown, report)
    return _exit_code(grown.grown)


@app.command()
def explore(
    source: Annotated[
        str, typer.Argument(metavar="TRAJECTORY|RUN", help="A trajectory's id or its beginning, or a run's name.")
    ],
    overrides: Overrides = None,
    budget: Annotated[int, typer.Option(min=1, help="New turns for all alternatives together.")] = 50,
    width: Annotated[int, typer.Option(min=1, help="Alternatives at each decision.")] = 2,
    rule: Annotated[
        list[str] | None, typer.Option(help="failure, risky or entropy; repeat; all when left out.")
    ] = None,
    unsure: Annotated[float, typer.Option(min=0.0, help="Nats a token from which an action counts as unsure.")] = 0.5,
    policy: Policy = None,
    model: Model = None,
    agent: Agent = None,
    env: Env = None,
    run: RunName = None,
    seed: Seed = None,
    pool: Pool = 4,
    accept_divergence: Accept = False,
    resume: Resume = False,
    report: Report = None,
    lake: Location = None,
    as_json: AsJson = False,
) -> int:
    """Try alternatives at decisions that rules choose, and say on which of them the outcome hinges."""
    from silva.errors import UsageError
    from silva.rollout.branching.choice import RULES

    unknown = sorted(set(rule or ()) - set(RULES))
    if unknown:
        raise UsageError(f"unknown rule {unknown[0]!r}; known: {', '.join(RULES)}")
    if resume and run is None:
        raise UsageError("--resume takes --run NAME")
    given = {"model": model, "policy": policy, "agent": agent, "seed": seed, "pool": pool}
    how = {"budget": budget, "width": width, "rules": tuple(rule or RULES), "unsure": unsure, "env": env}
    how.update(accept=accept_divergence, resume=resume)
    grown, found, where = asyncio.run(_explored(lake, source, how, run, given, overrides or [], as_json))
    from silva.cli.trees_branch_show import say_findings

    say_findings(grown, found, where, as_json)
    _report(where, grown, report)
    return _exit_code(grown)


async def _explored(
    location: str | None,
    source: str,
    how: dict[str, Any],
    run: str | None,
    given: dict[str, Any],
    overrides: list[str],
    quiet: bool,
) -> tuple[Any, Any, str]:
    import msgspec

    from silva.errors import UsageError
    from silva.lake import Lake, default_location
    from silva.rollout.branching.choice import decisions, in_turn
    from silva.rollout.branching.explore import findings, planned
    from silva.rollout.branching.shoots import growth_of
    from silva.rollout.snapshots.point import named, run_name

    where = location or default_location()
    _must_be_there(where)
    async with Lake.open(where) as lake:
        of = await asyncio.to_thread(lake.run, source)
        trajectories = lake.trajectories(run_id=source) if of is not None else [lake.trajectory(source)]
        trajectories = [each for each in trajectories if not each.superseded]
        trajectories.sort(key=lambda each: (bool(each.outcome.success), each.task_id, each.index))
        grew = of or await asyncio.to_thread(lake.run, trajectories[0].run_id) if trajectories else of
        name = run_name(run, "explore", source)
        if how["resume"]:
            known = await _known(lake, name, where)
            growth = growth_of(known)
            settings = _stored_settings(known, where, given, overrides)
        else:
            env = how["env"] or (named(trajectories[0].env, grew) if trajectories else "")
            settings = _settings(grew, env, name, str(where), given, overrides)
        chosen = in_turn(
            [
                decisions(each, lake.walk(each), how["rules"], settings.snapshots.rules, how["unsure"])
                for each in trajectories
            ]
        )
        if not how["resume"]:
            if not chosen:
                raise UsageError(f"{source}: no rule chooses a decision; lower --unsure, or allow more rules")
            growth = planned(
                lake, chosen, budget=how["budget"], width=how["width"], source=source, env=how["env"] or None
            )
            growth = msgspec.structs.replace(growth, accept=how["accept"])
        shown = await _grown(lake, settings, growth, "explore", quiet)
        return shown.grown, await asyncio.to_thread(findings, lake, chosen, shown.grown), lake.location


class _Shown:
    """What is said at the end: the run of branches, the trajectories that were there before, and the lake's name."""

    def __init__(self, grown: Any, before: list[Any], lake: str) -> None:
        self.grown, self.before, self.lake = grown, before, lake


async def _branched(
    location: str | None,
    text: str,
    wanted: dict[str, Any],
    run: str | None,
    given: dict[str, Any],
    overrides: list[str],
    accept: bool,
    quiet: bool,
) -> _Shown:
    from silva.lake import Lake, default_location
    from silva.rollout.branching.shoots import Growth, Shoot, actions_of
    from silva.rollout.snapshots.point import find_node, indexes, point_at, run_name

    where = location or default_location()
    _must_be_there(where)
    async with Lake.open(where) as lake:
        node = await asyncio.to_thread(find_node, lake, text)
        tree = await asyncio.to_thread(lake.tree, node.tree_id)
        point = await asyncio.to_thread(
            lambda: point_at(lake, tree, node, instead=wanted["instead"], env=wanted["env"])
        )
        actions: list[Any] = list(actions_of(wanted["actions"], point.node.depth + 1)) or [None]
        count = wanted["n"] or (1 if wanted["actions"] else 4)
        firsts = [first for first in actions for _ in range(count)]
        shoots = tuple(
            Shoot(
                tree_id=tree.id,
                node_id=point.node.id,
                index=index,
                action=first,
                message=wanted["message"],
                instead_of=point.instead_of.id if point.instead_of else "",
            )
            for index, first in zip(indexes(lake, tree, len(firsts)), firsts, strict=True)
        )
        growth = Growth(shoots=shoots, env=wanted["env"] or "", accept=accept)
        name = run_name(run, "branch", point.node.id)
        settings = _settings(point.run, point.env, name, str(where), given, overrides)
        places = {(tree.id, point.node.id): point}
        return await _grown(lake, settings, growth, "branch", quiet, places)


async def _resumed(location: str | None, run: str, given: dict[str, Any], overrides: list[str], quiet: bool) -> _Shown:
    from silva.lake import Lake, default_location
    from silva.rollout.branching.shoots import growth_of

    where = location or default_location()
    _must_be_there(where)
    async with Lake.open(where) as lake:
        known = await _known(lake, run, where)
        growth = growth_of(known)
        return await _grown(lake, _stored_settings(known, where, given, overrides), growth, known.command, quiet)


async def _known(lake: Any, run: str, where: Any) -> Any:
    """The record of a run that is to be resumed."""
    from silva.errors import UsageError

    known = await asyncio.to_thread(lake.run, run)
    if known is None:
        raise UsageError(f"run {run} is not in lake {where}: nothing to resume; leave out --resume")
    return known


def _stored_settings(run: Any, where: Any, given: dict[str, Any], overrides: list[str]) -> Any:
    """The configuration of a run of branches, as its record has it."""
    said = {name: value for name, value in run.config.items() if name != "branch" and value is not None}
    dotted = [f"{key}={json.dumps(value)}" for key, value in {**said, "lake": str(where)}.items()]
    return _loaded(dotted, given, overrides)


async def _grown(lake: Any, settings: Any, growth: Any, command: str, quiet: bool, points: Any = None) -> _Shown:
    from silva.lake import field
    from silva.rollout.branching.grow import grow

    def ended(trajectory: Any) -> None:
        if not quiet:
            score = trajectory.outcome.score
            shown = trajectory.outcome.status.value if score is None else f"{trajectory.outcome.status.value} {score:g}"
            typer.echo(f"{settings.run} {trajectory.slot}: {shown}", err=True)

    grown = await grow(
        lake,
        settings,
        growth,
        command=command,
        points=points,
        probe=command == "branch",
        on_start=heed_interrupts,
        on_end=ended,
    )
    trees = {shoot.tree_id for shoot in growth.shoots}
    mine = {each.id for each in grown.trajectories}
    before = [
        each
        for tree in sorted(trees)
        for each in await asyncio.to_thread(lambda tree=tree: lake.trajectories(where=field("tree_id") == tree))
        if each.id not in mine and not each.superseded
    ]
    through: list[Any] = []
    points = {point.node.id for point in grown.points.values()}
    for each in before:
        walk = await asyncio.to_thread(lake.walk, each)
        if any(node.id in points for node in walk):
            through.append((each, walk))
    grown.walks = {each.id: await asyncio.to_thread(lake.walk, each) for each in grown.trajectories}
    return _Shown(grown, through, lake.location)


def _settings(run: Any, env: str, name: str, lake: str, given: dict[str, Any], overrides: list[str]) -> Any:
    from silva.errors import UsageError
    from silva.rollout.branching.grow import settings_of

    said = settings_of(run)
    if not said.get("model") and given["model"] is None and given["policy"] in (None, "model"):
        raise UsageError("the lake does not say which model grew this tree: give --model, or --policy expert or null")
    if given["policy"] is None and given["model"] is not None:
        given = {**given, "policy": "model"}
    if given["policy"] == "model" and str(said.get("agent", "")).startswith("program:") and given["agent"] is None:
        given = {**given, "agent": "tools"}
    base = {**said, "run": name, "lake": lake, "env": [env]}
    return _loaded([f"{key}={json.dumps(value)}" for key, value in base.items()], given, overrides)


def _loaded(base: list[str], given: dict[str, Any], overrides: list[str]) -> Any:
    from silva.cli.config import load
    from silva.rollout.config import RolloutConfig

    dotted = [f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None]
    return load(RolloutConfig, None, [*base, *dotted, *overrides])


def _must_be_there(location: Any) -> None:
    """Refuse to make a lake where a branch is asked for: there would be nothing to branch from."""
    from silva.lake import Lake

    Lake.open(location, mode="read")


def _report(lake: str, grown: Any, output: Path | None) -> None:
    """The page of a run of branches: its figures, and the trees that it grew in."""
    if output is None:
        return
    from silva.report import write_report

    write_report(lake, grown.run.id, output)
    typer.echo(f"report: {output}", err=True)


def _exit_code(grown: Any) -> int:
    from silva.errors import Exit
    from silva.tree import Status

    if grown.stopped == "interrupted":
        return Exit.INTERRUPTED
    failed = any(each.outcome.status is Status.FAILED for each in grown.trajectories)
    return Exit.INCOMPLETE if grown.stopped or failed else Exit.OK
