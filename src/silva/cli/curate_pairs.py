"""`silva curate pairs|value-head`: pairs of sibling steps for preference training, what they are like, who judged how
well; and a value head that judges."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.errors import Exit, UsageError

if TYPE_CHECKING:
    from silva.curate.pair_statistics import PairStatistics
    from silva.curate.verifier_accuracy import VerifierAccuracy


def pairs(
    run: Annotated[list[str] | None, typer.Option("--run", help="Of this run; may be said again.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the pairs here, JSON lines.")] = None,
    samples: Annotated[
        Path | None, typer.Option(help="Write their samples here, chosen and rejected in turns (dpo, alternating).")
    ] = None,
    of: Annotated[
        str,
        typer.Option(help="candidates: of each search; corrections: of people; tries: of tries that part, by score."),
    ] = "candidates",
    by: Annotated[str, typer.Option(help="By this verifier's scores, where it is not the one that chose.")] = "",
    margin: Annotated[float, typer.Option(min=0.0, help="Scores lie further apart than this.")] = 0.0,
    every: Annotated[bool, typer.Option("--every", help="The best against each that is worse, not the worst.")] = False,
    judged_by: Annotated[
        str, typer.Option(help="verifier; people: those they rated, at their word; both: theirs where there is one.")
    ] = "verifier",
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    lake: Annotated[str | None, typer.Option(envvar="SILVA_LAKE", help="Folder or object-store URL.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> int:
    """Pair what candidates came to at each turn: better and worse actions behind the same words, with exact ids. Says
    how often each side erred, which tools it called, how alike the two are, and how often a verifier was right."""
    from dataclasses import replace
    from typing import cast, get_args

    import msgspec

    from silva.curate.pair_statistics import pair_statistics
    from silva.curate.pairs import Paired, candidate_pairs, correction_pairs, pairs_of_run, step_pairs, write_pairs
    from silva.curate.ratings import By, judged, ratings
    from silva.curate.verifier_accuracy import REFERENCE, verifier_accuracy, verifiers_of
    from silva.lake import open_lake
    from silva.rollout.judged import searches
    from silva.train.algorithms.preference import laid_out
    from silva.train.sample_file import write_samples
    from silva.train.step_pairs import preferences

    if not run:
        raise UsageError("name a run: --run NAME; see `silva trees list`")
    if of not in ("candidates", "tries"):
        raise UsageError(f"--of {of!r}: give candidates or tries")
    if judged_by not in get_args(By):
        raise UsageError(f"--judged-by {judged_by!r}: give verifier, people or both")
    if of == "tries" and (by or every):
        raise UsageError(
            "--by and --every are for candidates; tries are paired by their scores, the best and the worst"
        )
    for path in (output, samples):
        if path is not None and path.exists() and not force:
            raise UsageError(f"{path.name}: is there already; add --force to replace it")

    def pair(tree: Any, trajectories: Any) -> Paired:
        if of == "candidates":
            return candidate_pairs(tree, trajectories, by=by, margin=margin, every=every)
        if of == "corrections":
            return correction_pairs(tree, trajectories)
        return Paired(step_pairs(tree, trajectories, lambda each: each.outcome.score, "score", margin))

    with open_lake(lake, mode="read") as opened:
        found = sum((pairs_of_run(opened, name, pair) for name in dict.fromkeys(run)), Paired())
        found = replace(found, pairs=judged(found.pairs, ratings(opened, found.pairs), cast(By, judged_by)))
        searched = [each for name in dict.fromkeys(run) for each in searches(opened.nodes(run_id=name))]
        if of == "candidates" and not searched:
            raise UsageError(
                f"run {', '.join(run)}: nothing was searched among candidates; grow it with silva rollout --candidates "
                "n, or pair whole tries: --of tries"
            )
        said = pair_statistics(found.pairs, opened.tree)
        known = verifiers_of(searched)
        held = [verifier_accuracy(searched, each) for each in known if each != REFERENCE and REFERENCE in known]
        exact, inexact = preferences(opened, [each.steps for each in found.pairs]) if samples else ([], [])
    if output is not None:
        write_pairs(output, found.pairs)
    if samples is not None and exact:
        write_samples(samples, laid_out(exact), force=force)
    if as_json:
        body = {"pairs": len(found.pairs), "searches": found.searches, "left": dict(found.left)}
        accuracy = [msgspec.to_builtins(each) for each in held]
        print_json({**body, "exact": len(exact), "inexact": inexact, "statistics": said, "accuracy": accuracy})
    else:
        _tell(found, said, held)
        for why in inexact[:3]:
            typer.echo(f"pair without exact ids: {why}", err=True)
        if samples is not None:
            typer.echo(f"{len(exact)} pairs with exact ids, {len(inexact)} without", err=True)
    return Exit.OK if found.pairs and not inexact else Exit.INCOMPLETE


def value_head(
    run: Annotated[list[str], typer.Argument(help="Run whose steps it is fitted on; repeat for several.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")],
    embedder: Annotated[str, typer.Option(help="hashed, minilm, http://HOST/v1#NAME or openai:NAME.")] = "hashed",
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    lake: Annotated[str | None, typer.Option(envvar="SILVA_LAKE", help="Folder or object-store URL.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> int:
    """Fit a value head, the verifier `value`, on steps and what became of them; says how right it is on tasks it did
    not see."""
    from silva.curate.value_head import fit, steps_of
    from silva.lake import open_lake
    from silva.rollout.branching.verifiers.value import write_head

    if output.exists() and not force:
        raise UsageError(f"{output.name}: is there already; add --force to replace it")
    with open_lake(lake, mode="read") as opened:
        steps = [step for name in dict.fromkeys(run) for step in steps_of(opened, name)]
    head = fit(steps, embedder, output.stem)
    write_head(output, head)
    if as_json:
        print_json(head.told)
        return Exit.OK
    told = head.told
    typer.echo(f"value head of {told['steps']} steps, {told['tasks']} tasks")
    if told.get("order") is None:
        typer.echo("no two steps of one held-out task came to different ends, so how right it is was not measured")
    else:
        typer.echo(
            f"held out: {told['twos']} twos of steps of {told['held_out_tasks']} tasks, {100 * told['order']:.0f} % in "
            "the right order (50 % is chance)"
        )
    return Exit.OK


def _tell(found: Any, said: PairStatistics, held: list[VerifierAccuracy]) -> None:
    from rich.console import Console
    from rich.table import Table

    where = f" of {found.searches} searches" if found.searches else ""
    typer.echo(f"{len(found.pairs)} pairs{where}, of {said.tasks} tasks")
    for why, count in found.left.most_common():
        typer.echo(f"  no pair from {count}: {why}")
    if not found.pairs:
        return
    table = Table("", "answered by an error", "words", "tools")
    for name, side in (("chosen", said.chosen), ("rejected", said.rejected)):
        tools = ", ".join(f"{tool or '(none)'} {count}" for tool, count in list(side.tools.items())[:6])
        table.add_row(name, f"{side.errors} of {side.answered}", f"{side.words:.1f}", tools)
    Console().print(table)
    typer.echo(
        f"gap {said.gap:.2f}; BLEU of chosen against rejected {said.bleu:.2f}; same tools in {said.same_tools:.0%}"
    )
    if held:
        table = Table("verifier", "against", "searches", "same order", "picks the best", "by lot", "tied")
        for each in held:
            cells = (_share(each.order), _share(each.pick), _percent(each.chance), _percent(each.tied))
            table.add_row(each.verifier, each.against, str(each.searches), *cells)
        Console().print(table)


def _share(interval: Any) -> str:
    if interval is None:
        return "–"
    bounds = "" if interval.low is None else f" [{100 * interval.low:.0f}, {100 * interval.high:.0f}]"
    return f"{100 * interval.value:.0f} %{bounds}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"
