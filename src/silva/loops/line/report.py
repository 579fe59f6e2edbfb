"""The report of a line's loop: one HTML file that opens offline and holds no script, in the manner of `silva.report`.

ledger, curves, lake ─▶ rounds, versions, timeline, curves, tasks repaired and broken side by side ─▶ report.html
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from silva import __version__
from silva.lake import Lake
from silva.loops.kernel.loop import REPORT, Loop
from silva.loops.line import charts
from silva.loops.line.config import LineConfig
from silva.loops.line.head import head_so_far
from silva.loops.line.verdict import Verdict, judge, rates
from silva.report import charts as places
from silva.report import wording
from silva.report.conversation import Story, story
from silva.report.write import save
from silva.train.curves import read_curve
from silva.tree import Record, Trajectory

SHOWN = 3
"""Tasks repaired, and tasks broken, that the page shows turn by turn."""


class Section(Record, frozen=True, kw_only=True):
    """What a kind of loop adds to the page: a `template` of its `package`, and the `values` it reads."""

    package: str
    template: str
    values: dict[str, Any]


class Changed(Record, frozen=True, kw_only=True):
    """A task whose success changed: its rates before and after, and an attempt of each."""

    task_id: str
    before: float
    after: float
    left: Story
    right: Story


def write(loop: Loop[LineConfig], brand: str, sections: Sequence[Section] = ()) -> Path:
    """Write the report of a loop as far as it has come; return its file.

    Args:
        loop: whose.
        brand: what kind of loop it is called.
        sections: what the kind adds to the page.

    Raises:
        UsageError: the file cannot be written.
        StoreError: the lake cannot be read.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    packages = dict.fromkeys(["silva.loops.line", "silva.report", *(each.package for each in sections)])
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, "templates") for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=wording.percent,
        bounds=wording.bounds,
        number=wording.number,
        seconds=wording.seconds,
        moment=wording.moment,
    )
    base, head = _base(loop), head_so_far(loop)
    verdict, repaired, broken = _changed(loop, base, head)
    page = environment.get_template("line.html.j2").render(
        line=loop.config.line,
        brand=brand,
        sections=[each.template for each in sections],
        **{name: value for each in sections for name, value in each.values.items()},
        env=loop.config.env,
        base=base,
        head=head,
        label=(loop.outputs("base") or {}).get("label", ""),
        verdict=verdict,
        part="test" if loop.config.tasks.test else "dev",
        parts=(loop.outputs("split") or {}).get("tasks", {}),
        expert=(loop.outputs("split") or {}).get("expert", {}),
        rounds=_rounds(loop),
        success=charts.success(_measured(loop)),
        rewards=charts.rewards(_played(loop)),
        curves=_curves(loop),
        timeline=charts.timeline(_spans(loop)),
        seconds=sum(entry.seconds for entry in loop.ledger.entries),
        repaired=repaired,
        broken=broken,
        began=loop.ledger.entries[0].at if loop.ledger.entries else time.time(),
        version=__version__,
        width=places.WIDTH,
        height=places.HEIGHT,
        left=places.LEFT,
        right=places.WIDTH - places.RIGHT,
        floor=places.HEIGHT - places.BOTTOM,
    )
    file = loop.folder / REPORT
    save(page, file)
    return file


def _base(loop: Loop[LineConfig]) -> str:
    return str((loop.outputs("base") or {}).get("version", ""))


def _measured(loop: Loop[LineConfig]) -> list[tuple[str, Mapping[str, Any]]]:
    """Each version with what it got on `dev`, in order."""
    stages = [loop.outputs(stage.name) for stage in loop.plan if stage.kind == "measure"]
    return [(str(found["version"]), found) for found in stages if found is not None]


def _played(loop: Loop[LineConfig]) -> list[tuple[str, Mapping[str, Any]]]:
    """Each round with what was earned while its data was made."""
    found = [(f"round {s.round}", loop.outputs(s.name)) for s in loop.plan if s.kind == "rollout"]
    return [(name, outputs) for name, outputs in found if outputs is not None]


def _rounds(loop: Loop[LineConfig]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number, settings in enumerate(loop.config.rounds, start=1):
        given = {kind: loop.outputs(f"round-{number}.{kind}") for kind in ("select", "train", "register", "judge")}
        judged = given["judge"]
        over = loop.ledger.over()
        notes = [over[s.name].note for s in loop.plan if s.round == number and s.name in over and over[s.name].note]
        rows.append(
            {
                "number": number,
                "source": settings.source,
                "algorithm": settings.algorithm.name,
                **given,
                "too_long": _too_long(given["select"]),
                "verdict": None if judged is None else msgspec.convert(judged["verdict"], Verdict),
                "note": notes[0] if notes else "",
            }
        )
    return rows


def _too_long(selected: Mapping[str, Any] | None) -> str:
    """How many samples of a round were longer than the policy's context; "" where none was, or nobody counted."""
    counts = {name: (selected or {}).get(name, 0) for name in ("truncated", "dropped")}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def _curves(loop: Loop[LineConfig]) -> list[places.Plot]:
    found: list[places.Plot] = []
    for number, settings in enumerate(loop.config.rounds, start=1):
        trained = loop.outputs(f"round-{number}.train")
        if trained is None:
            continue
        points = read_curve(loop.folder / str(trained["output"]))
        found += charts.training(f"Round {number}, {settings.algorithm.name}", points)
    return found


def _spans(loop: Loop[LineConfig]) -> list[charts.Span]:
    """When each stage ran, seconds from the loop's first moment; pauses between parts of the loop are left out."""
    kinds = {stage.name: stage.kind for stage in loop.plan}
    spans: list[charts.Span] = []
    clock = 0.0
    for entry in loop.ledger.entries:
        if entry.event != "begun" and entry.seconds and entry.stage in kinds:
            spans.append(charts.Span(name=entry.stage, kind=kinds[entry.stage], begin=clock, seconds=entry.seconds))
            clock += entry.seconds
    return spans


def _changed(loop: Loop[LineConfig], base: str, head: str) -> tuple[Verdict | None, list[Changed], list[Changed]]:
    proof = next((loop.outputs(s.name) for s in loop.plan if s.kind == "prove"), None)
    part = "test" if loop.config.tasks.test else "dev"
    verdict = None
    if proof is not None and proof["verdict"] is not None:
        verdict = msgspec.convert(proof["verdict"], Verdict)
        head = verdict.right  # what was measured, also where it was rolled back
    if not base or head == base:
        return verdict, [], []
    lake = Lake.open(loop.lake, mode="read")
    one, other = (lake.trajectories(run_id=f"{loop.config.line}.{part}.{version}") for version in (base, head))
    if verdict is None and one and other:
        verdict = judge(one, other, base, head)
    before, after = rates(one), rates(other)
    both = sorted(before.keys() & after.keys(), key=lambda task: (after[task] - before[task], task))
    repaired = [task for task in reversed(both) if after[task] > before[task]][:SHOWN]
    broken = [task for task in both if after[task] < before[task]][:SHOWN]

    def pair(task: str, good_right: bool) -> Changed:
        return Changed(
            task_id=task,
            before=before[task],
            after=after[task],
            left=_story(lake, one, task, not good_right),
            right=_story(lake, other, task, good_right),
        )

    return verdict, [pair(task, True) for task in repaired], [pair(task, False) for task in broken]


def _story(lake: Lake, attempts: Sequence[Trajectory], task: str, success: bool) -> Story:
    """An attempt at a task that ended so, or any where none did."""
    mine = sorted((each for each in attempts if each.task_id == task and not each.superseded), key=lambda t: t.index)
    chosen = next((each for each in mine if bool(each.outcome.success) is success), mine[0])
    return story(chosen, lake.walk(chosen) if chosen.leaf_id is not None else None)
