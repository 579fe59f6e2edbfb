"""`silva curate checkers|calibrate`: who looks at data, how often each is wrong, and how that is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from silva.cli.as_json import print_json
from silva.errors import Exit, UsageError


def checkers(
    cards: Annotated[Path | None, typer.Option(help="Folder of cards instead of the package's.")] = None,
    model: Annotated[str, typer.Option(help="Model that judges would ask.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON, with the cards' corpora.")] = False,
) -> int:
    """List the checkers of `silva audit`, with recall and false alarms from their cards."""
    from silva.curate.audit.card import read_cards
    from silva.curate.audit.checker import Settings, make
    from silva.curate.audit.thresholds import fitting
    from silva.report.wording import bounds, percent

    known = read_cards(cards)
    made: list[dict[str, Any]] = []
    for each in make(settings=Settings(model=model)):
        card = fitting(each, known)
        made.append(
            {
                "name": each.name,
                "version": each.version,
                "risk": each.risk,
                "family": each.family.value,
                "summary": each.summary,
                "needs": each.needs,
                "missing": each.missing(),
                "threshold": each.threshold if card is None else card.threshold,
                "recall": None if card is None else card.recall(),
                "false_alarms": None if card is None else card.false_alarms(),
                "traps": None if card is None else card.trapped(),
                "checked": None if card is None else card.checked(),
                "corpora": [] if card is None else card.corpora,
            }
        )
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(made))
        return Exit.OK
    for each in made:
        found, wrong, traps = each["recall"], each["false_alarms"], each["traps"]
        told = "no card" if wrong is None else f"false alarms {percent(wrong.value)} {bounds(wrong)} of {wrong.n}"
        told = told if found is None else f"finds {percent(found.value)} {bounds(found)} of {found.n}; {told}"
        told += f"; traps {percent(traps.value)}" if traps is not None else ""
        typer.echo(f"{each['name']} ({each['family']}, {each['risk']}): {each['summary']}")
        typer.echo(f"    {told}" + (f"; cannot be asked here: {each['missing']}" if each["missing"] else ""))
    return Exit.OK


def calibrate(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for one card a checker.")],
    files: Annotated[list[Path] | None, typer.Argument(help="Labelled files; the corpora of packages if none.")] = None,
    checker: Annotated[
        list[str] | None, typer.Option(help="A checker, a family or a risk; -NAME leaves it out; all if none.")
    ] = None,
    corpus: Annotated[list[str] | None, typer.Option(help="A corpus of a package; may be said again.")] = None,
    run: Annotated[
        list[str] | None, typer.Option(help="A red-team run, labelled by what its attacks brought about.")
    ] = None,
    lake: Annotated[str | None, typer.Option(envvar="SILVA_LAKE", help="Where the runs are.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="What a label of the files means: 1=jailbreak, 0=clean.")
    ] = None,
    licence: Annotated[str, typer.Option(help="Licence of the files, for the cards.")] = "not told",
    model: Annotated[str, typer.Option(help="Model that judges ask.")] = "",
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="So many risky items, others and traps of each corpus at most: for judges."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was measured as JSON.")] = False,
) -> int:
    """Measure checkers on held-out labelled items, and write a card for each."""
    from silva.curate.audit.attacked import attacked
    from silva.curate.audit.calibrating import calibrate as measure
    from silva.curate.audit.card import write_card
    from silva.curate.audit.checker import Settings, make
    from silva.curate.audit.corpus import Corpus, corpora, find_corpus
    from silva.curate.audit.labelled import LabelledFile
    from silva.lake import default_location
    from silva.report.wording import bounds, percent

    meaning = dict(_meaning(each) for each in label or ())
    read: list[Corpus] = [LabelledFile(path, meaning, licence) for path in files or ()]
    read += [each for name in run or () for each in attacked(lake or default_location(), name)]
    read += [find_corpus(name) for name in (corpus if corpus else () if files or run else corpora())]
    asked = make(checker or (), Settings(model=model))
    made = measure(asked, read, most=limit, told=lambda line: typer.echo(line, err=True))
    for card in made:
        write_card(card, output)
    if as_json:
        import msgspec

        told = [
            {
                "checker": card.checker,
                "version": card.version,
                "risk": card.risk,
                "recall": card.recall(),
                "false_alarms": card.false_alarms(),
                "traps": card.trapped(),
                "checked": card.checked(),
                "corpora": card.corpora,
                "model": card.model,
                "agreement": card.agreement,
                "note": card.note,
            }
            for card in made
        ]
        print_json(msgspec.to_builtins(told))
        return Exit.OK
    for card in made:
        found, wrong = card.recall(), card.false_alarms()
        count = len(card.risky) + len(card.own)
        none = f"could check none of {count} risky items" if count else "no risky item"
        first = none if found is None else f"finds {percent(found.value)} {bounds(found)} of {found.n}"
        second = (
            "no clean item" if wrong is None else f"false alarms {percent(wrong.value)} {bounds(wrong)} of {wrong.n}"
        )
        typer.echo(f"{card.checker}: {first}; {second}" + (f"; {card.note}" if card.note else ""))
    typer.echo(f"{len(made)} cards in {output}")
    return Exit.OK


def _meaning(text: str) -> tuple[str, str]:
    label, sign, risk = text.rpartition("=")
    if not sign:
        raise UsageError(f"--label {text!r}: write it as LABEL=RISK, such as 1=jailbreak")
    return label, risk
