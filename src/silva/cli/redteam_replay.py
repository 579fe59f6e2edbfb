"""`silva redteam replay`: the attempts of a plan in which an attack reached its goal, taken again one by one."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.errors import Exit, UsageError


def replay(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the plan.")],
    lake: Annotated[str | None, typer.Option("--lake", envvar="SILVA_LAKE", help="Folder or object-store URL.")] = None,
    attack: Annotated[str | None, typer.Option(help="Of this attack alone.")] = None,
    trajectory: Annotated[
        list[str] | None, typer.Option(help="This one alone, by its id or the beginning of it; repeat for several.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="So many failures at most.")] = 10,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds one call of the environment may take.")] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Take the actions of every found failure again in its environment: the words seen at which turn, the act at which,
    and whether the environment answers the same. Exit 0 when all do, 1 when one diverges."""
    from silva.lake import Lake, default_location
    from silva.redteam.rates import played
    from silva.redteam.verdict import told
    from silva.rollout.replay_stored import replay_stored

    replayed: list[dict[str, Any]] = []
    with Lake.open(lake or default_location(), mode="read") as opened:
        attempts = [each for one in played(opened, name).values() for each in one if not each.superseded]
        reached = [each for each in attempts if told(each).get("reached") is not None]
        failures = [each for each in reached if attack in (None, told(each)["name"])]
        if trajectory:
            failures = [_only(each, failures, attempts, name) for each in trajectory]
        for each in failures[:limit]:
            done = asyncio.run(replay_stored(opened, each, seconds=timeout))
            said = told(each)
            one: dict[str, Any] = {
                "trajectory": each.id,
                "run": each.run_id,
                "task": each.task_id,
                "attack": said["name"],
            }
            one |= {"exposed": said["exposed"], "reached": said["reached"], "turns": done.turns}
            one["divergence"] = None if done.divergence is None else str(done.divergence)
            replayed.append(one)
            if not as_json:
                typer.echo(_line(one))
    if as_json:
        print_json({"name": name, "failures": len(failures), "replayed": replayed})
    elif not failures:
        seen = sum(1 for each in attempts if told(each).get("exposed") is not None)
        typer.echo(f"no attack reached its goal in {name}: {seen} of {len(attempts)} attempts saw one")
    elif len(failures) > limit:
        typer.echo(f"{len(failures) - limit} more failures: --limit {len(failures)}")
    return Exit.FAULT if any(each["divergence"] for each in replayed) else Exit.OK


def _only(wanted: str, failures: list[Any], attempts: list[Any], name: str) -> Any:
    """The one failure whose id begins so.

    Raises:
        UsageError: there is none, or several.
    """
    found = [each for each in failures if each.id.startswith(wanted)] if wanted else []
    if len(found) == 1:
        return found[0]
    why = f"{len(found)} failures begin so" if found else "no failure of this plan begins so"
    if not found and wanted and any(each.id.startswith(wanted) for each in attempts):
        why = "no attack reached its goal in it, or not the attack that is named"
    raise UsageError(f"redteam replay {name}: trajectory {wanted[:60]!r}: {why} (silva redteam report {name})")


def _line(one: dict[str, Any]) -> str:
    again = f"diverged at {one['divergence']}" if one["divergence"] else f"the same again, {one['turns']} turns"
    return (
        f"{one['trajectory'][:12]}  {one['task']}  {one['attack']}: seen at turn {one['exposed']}, done at turn "
        f"{one['reached']}; {again}"
    )
