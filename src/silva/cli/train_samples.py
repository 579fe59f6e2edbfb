"""`silva train samples`: trajectories of a lake to a file of training samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from silva.cli.as_json import print_json

app = typer.Typer(add_completion=False)


@app.command()
def samples(
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write.")] = None,
    format_: Annotated[
        str,
        typer.Option("--format", "-f", help="silva, trl-sft, trl-grpo, trl-dpo, verl, slime or prime-rl."),
    ] = "silva",
    lake: Annotated[
        str | None,
        typer.Option("--lake", envvar="SILVA_LAKE", help="Folder or s3://bucket/prefix; ./lake when left out."),
    ] = None,
    version: Annotated[str | None, typer.Option("--version", help="The lake as it was under this tag.")] = None,
    run: Annotated[list[str] | None, typer.Option("--run", help="Of this run; may be said again.")] = None,
    env: Annotated[str | None, typer.Option(help="Of this environment.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="Of this task.")] = None,
    where: Annotated[str | None, typer.Option(help="For example: score >= 0.5 and turns < 10.")] = None,
    role: Annotated[
        str | None, typer.Option(help="The walks and scores of this role, where several agents acted; else the first.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Take trajectories that failed, too.")] = False,
    logprobs: Annotated[str, typer.Option(help="required, or optional where only imitation is wanted.")] = "required",
    inexact: Annotated[
        str, typer.Option(help="skip, by name, or refuse trajectories whose tokens are not known.")
    ] = "skip",
    model: Annotated[
        list[str] | None, typer.Option("--model", help="Only this model's turns are the policy's; may be said again.")
    ] = None,
    image_id: Annotated[int | None, typer.Option(min=0, help="The model's id of an image's placeholder.")] = None,
    reward: Annotated[
        str, typer.Option(help="score (the environment's final one) or return (its rewards' sum).")
    ] = "score",
    once: Annotated[
        str, typer.Option(help="A drawn id that several samples hold has its loss once a trajectory, or once a tree.")
    ] = "trajectory",
    advantages: Annotated[
        str | None,
        typer.Option(help="Score the groups: mean, mean_std or leave_one_out. Groups all alike are left out."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="The most ids a sample may have.")] = None,
    overlong: Annotated[
        str, typer.Option(help="refuse, truncate (whole actions only) or drop longer ones.")
    ] = "refuse",
    budget: Annotated[int | None, typer.Option(min=1, help="Ids a pack holds (prime-rl).")] = None,
    temperature: Annotated[float, typer.Option(min=0.0, help="At which the turns were drawn (prime-rl).")] = 1.0,
    objective: Annotated[str, typer.Option(help="rl or ce, the loss to write for (prime-rl).")] = "rl",
    margin: Annotated[float, typer.Option(min=0.0, help="How far apart a pair's rewards lie (trl-dpo).")] = 0.0,
    on: Annotated[str, typer.Option(help="Who reads: local, or ray, the workers of a Ray cluster.")] = "local",
    ray_address: Annotated[str, typer.Option(help="HOST:PORT of the cluster; auto as `ray start` left it.")] = "auto",
    ray_workers: Annotated[int | None, typer.Option(min=1, help="Among so many; as many as there are CPUs.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Turn trajectories into exact training samples. Nothing is tokenised: ids, masks and log-probabilities are those
    the model saw and drew; a trajectory that does not have them drops out by name."""
    from silva.errors import UsageError
    from silva.lake import Lake, default_location, parse
    from silva.train.lake_samples import collect, each_in_turn
    from silva.train.left_out import left_out
    from silva.train.stretch import Reading
    from silva.train.truncation import Fitted, fit
    from silva.train.writers import Options, find, ready, write
    from silva.tree.role import in_roles, roles_of

    if output is None:
        raise UsageError(f"where to? add --output FILE{find(format_).endings[0]}")
    ready(format_, output, force=force)
    reading: Any = Reading(
        logprobs=_one_of("--logprobs", logprobs, "required", "optional"),
        models=frozenset(model) if model else None,
        image_id=image_id,
        reward=_one_of("--reward", reward, "score", "return"),
        once=_one_of("--once", once, "trajectory", "tree"),
    )
    inexact_: Any = _one_of("--inexact", inexact, "refuse", "skip")
    overlong_: Any = _one_of("--overlong", overlong, "refuse", "truncate", "drop")
    objective_: Any = _one_of("--objective", objective, "rl", "ce")
    if advantages is not None:
        _one_of("--advantages", advantages, "mean", "mean_std", "leave_one_out")
    ray = _ray(ray_address, ray_workers) if _one_of("--on", on, "local", "ray") == "ray" else None
    condition = parse(where) if where else None
    with Lake.open(lake or default_location(), mode="read", version=version) as opened:
        chosen: list[Any] = []
        for name in dict.fromkeys(run or [None]):
            found = opened.trajectories(run_id=name, env=env, task_id=task, where=condition)
            if name is not None and not found and opened.run(name) is None:
                raise UsageError(f"lake {opened.location}: has no run {name}; see `silva trees list`")
            chosen += found
        if role is not None:
            there = sorted({name for each in chosen for name in roles_of(each)})
            chosen = in_roles(chosen, role)
            if not chosen and there:
                raise UsageError(f"--role {role}: these trajectories have the roles {', '.join(there)}")
        if not chosen:
            raise UsageError("no trajectory meets the conditions; nothing was written")
        read_by: Any = each_in_turn
        if ray is not None:
            from silva.train.ray_samples import RayReader

            read_by = RayReader(ray=ray, location=opened.location, version=version)
        read = collect(opened, chosen, reading, inexact=inexact_, failed=failed, read=read_by)
    fitted = Fitted(samples=read.samples) if limit is None else fit(read.samples, limit, overlong_)
    made = list(fitted.samples)
    alike = 0
    if advantages is not None:
        made, alike = _scored(made, advantages)
    if not made:
        why = f"{read.failed} failed, {len(read.inexact)} inexact, {fitted.dropped} too long, {alike} groups alike"
        raise UsageError(f"{len(chosen)} trajectories gave no sample; nothing was written ({why})")
    options = Options(
        budget=budget,
        temperature=temperature,
        objective=objective_,
        margin=margin,
        force=force,
    )
    rows = write(format_, output, made, options)
    counts = {
        "format": format_,
        "rows": rows,
        "samples": len(made),
        "trajectories": read.trajectories,
        "ids": sum(map(len, made)),
        "with_loss": sum(int(each.mask.sum()) for each in made),
        "drawn": sum(int(each.drawn.sum()) for each in made),
        "failed": read.failed,
        "superseded": read.superseded,
        "inexact": len(read.inexact),
        "truncated": fitted.truncated,
        "dropped": fitted.dropped,
        "groups_alike": alike,
    }
    typer.echo(left_out(read.inexact), err=True, nl=False)
    if as_json:
        print_json(counts)
        return
    typer.echo(
        f"{rows} rows from {len(made)} samples of {read.trajectories} trajectories as {format_}: "
        f"{counts['ids']} ids, {counts['with_loss']} with loss, {counts['drawn']} drawn"
    )
    cut = ("failed", "superseded", "inexact", "truncated", "dropped", "groups_alike")
    told = [f"{counts[name]} {name}" for name in cut if counts[name]]
    if told:
        typer.echo(f"left out or cut: {', '.join(told).replace('_', ' ')}", err=True)


def _one_of(option: str, value: str, *known: str) -> Any:
    from silva.errors import UsageError

    if value not in known:
        raise UsageError(f"{option} {value!r}: give {', '.join(known[:-1])} or {known[-1]}")
    return value


def _ray(address: str, workers: int | None) -> Any:
    from silva.cli.config import load
    from silva.rollout.config import RayConfig

    return load(RayConfig, None, [f"address={json.dumps(address)}", f"workers={json.dumps(workers)}"])


def _scored(made: list[Any], baseline: str) -> tuple[list[Any], int]:
    from silva.train.algorithms.advantages import Dropped, score

    groups: dict[tuple[str, str], list[Any]] = {}
    for sample in made:
        groups.setdefault((sample.run_id, sample.task_id), []).append(sample)
    kept: list[Any] = []
    alike = 0
    for group in groups.values():
        scored = score(group, baseline)  # pyright: ignore[reportArgumentType]
        if isinstance(scored, Dropped):
            alike += 1
        else:
            kept += scored
    return kept, alike
