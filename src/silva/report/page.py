"""The HTML report: one file that opens offline, holds no script and shows what it was given, escaped.

Every word of a conversation is data from strangers. Three walls stand between it and the reader's browser: the template
escapes everything, the page holds no script, and its content security policy forbids all scripts and requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from silva import __version__
from silva.redact import redact_json
from silva.report import charts, wording
from silva.report.compare import Comparison
from silva.report.conversation import Story, chosen, story, verdict
from silva.report.picture import WIDTH, Picture, picture
from silva.report.scaling import scaling
from silva.report.shape import shape
from silva.report.summary import Summary, TaskSummary, counted
from silva.tree import Node, Run, Trajectory, Tree

CONVERSATIONS = 60
"""Conversations a page shows unless told otherwise."""

LISTED = 1_000
"""Attempts a page lists."""

TREES = 40
"""Trees a page draws."""


def render(
    run: Run,
    summary: Summary,
    trajectories: Iterable[Trajectory],
    walk: Callable[[Trajectory], Sequence[Node]],
    *,
    comparison: Comparison | None = None,
    conversations: int = CONVERSATIONS,
    image: Callable[[str], bytes | None] = lambda _: None,
    tree: Callable[[str], tuple[Tree, Sequence[Trajectory]]] | None = None,
) -> str:
    """The report of one run as HTML.

    Args:
        run: its record.
        summary: its figures.
        trajectories: its attempts; superseded ones are left out.
        walk: the nodes of an attempt, root first; called only for those whose conversation is shown.
        comparison: this run against another, when asked for.
        conversations: how many conversations to show.
        image: bytes of an image by content hash, None where they cannot be had.
        tree: a tree by its id, with all trajectories that end in it, of other runs too; called only for those that are
            drawn. None: no pictures.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    attempts = sorted(counted(trajectories), key=lambda t: (t.env, t.task_id, t.index))
    environment = Environment(
        loader=PackageLoader("silva.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=wording.percent,
        bounds=wording.bounds,
        number=wording.number,
        dollars=wording.dollars,
        seconds=wording.seconds,
        moment=wording.moment,
    )
    grown = {each.tree_id for each in attempts if each.leaf_id is not None}
    grows = scaling(attempts, walk)
    pictures = [] if tree is None else _pictures(attempts, run.id, tree)
    return environment.get_template("report.html.j2").render(
        run=run,
        config=json.dumps(redact_json(run.config, names=True), indent=2, ensure_ascii=False),
        summary=summary,
        unsaid=wording.unsaid(summary),
        rows=[*summary.envs, summary] if len(summary.envs) != 1 else list(summary.envs),
        strips=_strips(summary),
        comparison=comparison,
        best=summary.passes[-1] if summary.passes else None,
        curves=charts.pass_curves(summary.passes),
        turns=_turns(attempts),
        grows=grows,
        budgets=[]
        if grows is None
        else [plot for plot in (charts.budgets(grows.turns), charts.budgets(grows.seconds, hours=True)) if plot],
        safety=charts.scatter(
            (t.outcome.score, t.outcome.safety)
            for t in attempts
            if t.outcome.score is not None and t.outcome.safety is not None
        ),
        waits=_waits(summary),
        stories=_stories(attempts, walk, conversations, image),
        unlisted=max(0, len(attempts) - LISTED),
        pictures=pictures,
        unpictured=max(0, len(grown) - TREES),
        tree_limit=TREES,
        canvas=WIDTH,
        version=__version__,
        width=charts.WIDTH,
        height=charts.HEIGHT,
        left=charts.LEFT,
        right=charts.WIDTH - charts.RIGHT,
        floor=charts.HEIGHT - charts.BOTTOM,
    )


def _strips(summary: Summary) -> Mapping[str, list[TaskSummary]]:
    strips: dict[str, list[TaskSummary]] = {}
    for task in summary.by_task:
        strips.setdefault(task.env, []).append(task)
    return strips


def _turns(attempts: Sequence[Trajectory]) -> charts.Plot | None:
    kinds: dict[str, list[int]] = {"solved": [], "unsolved": [], "unjudged": [], "broke": []}
    for attempt in attempts:
        kinds[verdict(attempt)].append(attempt.turns)
    return charts.histogram(kinds, "Turns per attempt", "turns")


def _waits(summary: Summary) -> list[dict[str, Any]]:
    rows = summary.envs or (summary,)
    return [
        {
            "env": row.env or "all",
            "total": row.waiting.total,
            "parts": [
                ("model", "waiting for the model", row.waiting.model),
                ("environment", "waiting for the environment", row.waiting.environment),
                ("silva", "in Silva", row.waiting.silva),
                ("other", "elsewhere: queues, set-up, evaluation", row.waiting.other),
            ],
        }
        for row in rows
        if row.waiting.total > 0
    ]


def _pictures(
    attempts: Sequence[Trajectory], run: str, tree: Callable[[str], tuple[Tree, Sequence[Trajectory]]]
) -> list[Picture]:
    """The trees that have something to show: more than one path, or a mark. Those whose paths differ come first."""
    kinds: dict[str, set[str]] = {}
    for attempt in attempts:
        if attempt.leaf_id is not None:
            kinds.setdefault(attempt.tree_id, set()).add(verdict(attempt))
    listed = [each.id for each in attempts[:LISTED]]
    drawn: list[Picture] = []
    for name in sorted(kinds, key=lambda each: -len(kinds[each]))[:TREES]:
        found = shape(*tree(name), run)
        if found.forks or any(stem.marks for stem in found.stems):
            drawn.append(picture(found, listed))
    return drawn


def _stories(
    attempts: Sequence[Trajectory],
    walk: Callable[[Trajectory], Sequence[Node]],
    limit: int,
    image: Callable[[str], bytes | None],
) -> list[Story]:
    listed = attempts[:LISTED]
    shown = chosen(listed, limit)
    return [story(t, walk(t) if t.id in shown and t.leaf_id is not None else None, image) for t in listed]
