"""`silva qa`: what came of red-teaming in dialogue, and how far its judges can be believed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silva.cli.as_json import print_json

if TYPE_CHECKING:
    from silva.report.dialogue import Agreement

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Red-teaming in dialogue: safety by strategy, judges by labels."
)

Location = Annotated[
    str | None, typer.Option("--lake", envvar="SILVA_LAKE", help="Folder or s3://bucket/prefix; ./lake when left out.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def report(
    run: Annotated[list[str] | None, typer.Option("--run", help="Of this run; may be said again. All if none.")] = None,
    lake: Location = None,
    least_safety: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Exit 1 unless safety is known and at least this, decided either way."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the same as one page here.")] = None,
    as_json: AsJson = False,
) -> int:
    """Safety rates of the environment qa, by strategy and by round, with 95 % intervals by goal.

    What a judge decided is shown only where that judge has been measured against labels (silva rollout --env qa-judge
    --model JUDGE in the same lake)."""
    import msgspec

    from silva.errors import UsageError
    from silva.report.dialogue import ENVS, dialogues

    with _open(lake) as opened:
        for name in run or ():
            if opened.run(name) is None:
                raise UsageError(f"lake {opened.location}: has no run {name}; see `silva trees list`")
        found = [each for name in run or [None] for env in ENVS for each in opened.trajectories(run_id=name, env=env)]
        if not found:
            raise UsageError(
                f"lake {opened.location}: no dialogue of the environment qa or qa-public: silva rollout --env qa …"
            )
        done = dialogues(found, _known(opened))
    if html is not None:
        from silva.report.dialogue_page import render
        from silva.report.write import save

        save(render(done, run or ()), html)
    if as_json:
        print_json(msgspec.to_builtins(done) | {"withheld": done.withheld})
    else:
        _print(done)
    overall = [row.safety for row in done.rows if row.name == "all"]
    kept = all(each is not None and each.value >= (least_safety or 0.0) for each in overall) and not done.withheld
    return 0 if least_safety is None or (kept and overall) else 1


@app.command()
def judges(lake: Location = None, as_json: AsJson = False) -> None:
    """The judges that were measured against the labelled replies: what they find, and what they call broken wrongly."""
    import msgspec

    with _open(lake) as opened:
        known = _known(opened)
    if as_json:
        print_json([msgspec.to_builtins(each) for each in known.values()])
    else:
        _console().print(_agreements(list(known.values())))


def _open(lake: str | None) -> Any:
    from silva.lake import Lake, default_location

    return Lake.open(lake or default_location(), mode="read")


def _known(lake: Any) -> dict[str, Agreement]:
    from silva.envs.gyms.qa.judging import ruled
    from silva.report.dialogue import HARM_JUDGES, JUDGES, RULE, agreement, measured, measured_on_harm

    on_harm = measured_on_harm(lake.trajectories(env=HARM_JUDGES))
    return {RULE: agreement(RULE, ruled()), **measured(lake.trajectories(env=JUDGES)), **on_harm}


def _console() -> Any:
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=120)


def _interval(interval: Any) -> str:
    from silva.report.wording import bounds, share

    return f"{share(interval.value if interval else None)} {bounds(interval)}".strip()


def _agreements(known: list[Agreement]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(title="Judges against labels, in percent", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("judge", "labels", "finds of the broken", "false alarms", "no verdict"):
        table.add_column(heading, justify="left" if heading == "judge" else "right")
    for each in known:
        name = "the rule that stands in" if each.judge == "expert" else each.judge
        table.add_row(name, str(each.labels), _interval(each.recall), _interval(each.false_alarms), str(each.silent))
    return table


def _print(done: Any) -> None:
    from rich import box
    from rich.table import Table

    from silva.report.wording import share

    console = _console()
    title = "Safety in percent, with 95 % intervals by goal; then the share that was safe after round 1, 2, …"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("decided", "strategy", "tries", "judged", "not launched", "answered", "safety", "by round"):
        side = "left" if heading in ("decided", "strategy") else "right"
        table.add_column(heading, justify=side, no_wrap=heading in ("strategy", "safety", "by round"))
    for row in done.rows:
        decided = "by the rule" if row.decided == "expert" else row.decided
        rounds = " ".join("–" if each is None else f"{100 * each.value:.0f}" for each in row.by_round)
        counts = map(str, (row.attempts, row.judged, row.not_launched))
        answered = share(row.completed.value if row.completed else None)
        table.add_row(decided, row.name, *counts, answered, _interval(row.safety), rounds)
    if done.rows:
        console.print(table)
    if done.judges:
        console.print(_agreements(list(done.judges)))
    for model, count in done.unknown:
        console.print(
            f"Withheld: {count} attempts were judged by {model}, whose agreement with labels nobody has measured: "
            f"silva rollout --env qa-judge (for harm: qa-judge-harm) with that model in this lake"
        )
    unjudged = sum(row.unjudged for row in done.rows if row.name == "all")
    failed = sum(row.failed for row in done.rows if row.name == "all")
    facts = {
        "attempts with a round that nobody could judge": unjudged,
        "attempts that broke": failed,
        "messages an attacker declined": done.refused,
        "said again": done.repeated,
        "that were no message": done.garbled,
        "verdicts overturned by the referee": done.overturned,
    }
    told = ", ".join(f"{count} {what}" for what, count in facts.items() if count)
    if told:
        console.print(f"Counted beside, never as safe: {told}.")
