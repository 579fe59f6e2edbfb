"""What came of red-teaming in dialogue, as one HTML file that opens offline and holds no script."""

from __future__ import annotations

from collections.abc import Sequence

from silva import __version__
from silva.report import wording
from silva.report.dialogue import Dialogues


def render(done: Dialogues, runs: Sequence[str]) -> str:
    """The page of some dialogues; `runs` names those they are of (none: all of the lake)."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("silva.report", "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters.update(percent=wording.percent, bounds=wording.bounds)
    return environment.get_template("dialogue.html.j2").render(
        done=done,
        name=", ".join(runs) or "all dialogues",
        rounds=max((len(row.by_round) for row in done.rows), default=0),
        version=__version__,
    )
