"""A picture of a tree: its shape laid out on a canvas. The template draws it as SVG that needs no script.

    Shape ─▶ rows (one a path, in order) · columns (turns; long stretches in which nothing happens are drawn shorter)
          ─▶ Picture: stems as lines, marks merged where they would touch, what each path came to beside its end

A path goes on in its parent's row as long as it is the first way from a fork; each other way gets a row below, so no
line crosses another. However large the tree is, the picture has at most `PATHS` rows and about `MARKS` marks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import log2

from silva.report.charts import steps
from silva.report.shape import KINDS, Mark, Shape, Stem, drawn
from silva.tree import Record

WIDTH = 1040.0
PATHS = 240
"""Paths that are drawn; of more, a selection."""
MARKS = 1_200
"""Marks of one picture; where there are more, more of them are merged."""

_LEFT, _TOP, _BOTTOM = 16.0, 30.0, 12.0
_PLOT = 620.0
"""Width of the turns; what is right of them is for words."""
_WIDEST = 30.0
"""Most points that one turn takes."""
_EVEN = 80
"""Turns up to which every turn is as wide as the other."""
_FREE = 4
"""Turns of a longer stretch that are drawn in full width; the rest of it by its logarithm."""
_LETTER = 6.3
"""Width of a letter of the words beside a path."""
_NAMES = {
    "risk": ("risk", "risks"),
    "snapshot": ("snapshot", "snapshots"),
    "given": ("chosen action", "chosen actions"),
    "said": ("word of others", "words of others"),
}


class Line(Record, frozen=True, kw_only=True):
    """One stem: `path` as SVG wants it, its classes, what pointing at it says."""

    path: str
    kind: str
    title: str


class Sign(Record, frozen=True, kw_only=True):
    """A mark at (x, y), or from x to x + width where several were merged; `radius` of a fork's."""

    x: float
    y: float
    width: float
    kind: str
    title: str
    radius: float = 0.0


class Word(Record, frozen=True, kw_only=True):
    """What stands beside the end of a path; `of` is the trajectory whose conversation it leads to."""

    x: float
    y: float
    kind: str
    figure: str
    text: str
    title: str
    of: str = ""
    faint: bool = False


class Fold(Record, frozen=True, kw_only=True):
    """A stretch of turns that is drawn shorter than it is."""

    x: float
    width: float
    title: str


class Picture(Record, frozen=True, kw_only=True):
    """One tree, ready to draw; `about` says in words what it shows."""

    id: str
    env: str
    task: str
    about: str
    height: float
    ticks: tuple[tuple[float, str], ...]
    folds: tuple[Fold, ...]
    lines: tuple[Line, ...]
    turns: str
    fine: bool
    signs: tuple[Sign, ...]
    words: tuple[Word, ...]
    undrawn: int = 0


def picture(of: Shape, listed: Iterable[str] = ()) -> Picture:
    """Lay a tree out.

    Args:
        of: its shape.
        listed: ids of trajectories whose conversations the page lists: words lead there.
    """
    stems = of.stems
    kept = drawn(stems, PATHS)
    rows = _rows(of, kept)
    high = max(rows.values(), default=0) + 1
    step = 27.0 if high <= 16 else 20.0 if high <= 60 else 14.0
    across = _Columns([stems[number] for number in sorted(kept)], of.turns)
    level = {number: _TOP + step * (row + 0.5) for number, row in rows.items()}
    signs = _signs([(stems[number], level[number]) for number in sorted(kept)], across, step)
    linked = set(listed)
    ends = [number for number in sorted(kept) if stems[number].end is not None]
    total = sum(of.paths.values())
    return Picture(
        id=of.tree_id[:12],
        env=of.env,
        task=of.task,
        about=about(of),
        height=_TOP + step * high + _BOTTOM,
        ticks=across.ticks(),
        folds=across.folds(),
        lines=tuple(_line(stems, number, level, across, step) for number in sorted(kept)),
        turns=_turns([(stems[number], level[number]) for number in sorted(kept)], across),
        fine=step < 20,
        signs=(*_forks(stems, kept, level, across, step), *signs),
        words=tuple(_word(stems[number], across.at(stems[number].last), level[number], linked) for number in ends),
        undrawn=total - len(ends),
    )


def about(of: Shape) -> str:
    """A tree in words."""
    paths = of.paths
    parts = [f"{_many(sum(paths.values()), 'path')}: " + ", ".join(f"{paths[k]} {k}" for k in KINDS if paths[k])]
    parts.append(f"{_many(of.turns, 'turn')} deep")
    for kind, (one, several) in _NAMES.items():
        count = of.count(kind)
        if count:
            parts.append(f"{count:,} {one if count == 1 else several}")
    if of.forks:
        parts.insert(1, _many(of.forks, "fork"))
    return " · ".join(parts)


class _Columns:
    """Turns to places across the picture."""

    def __init__(self, stems: Sequence[Stem], turns: int) -> None:
        shown = {0, turns}
        for stem in stems:
            shown.update((stem.first, stem.last))
            shown.update(mark.turn for mark in stem.marks if mark.kind != "snapshot")
        self._turns = turns
        self._even = turns <= _EVEN
        self._known = sorted(shown)
        reached = [0.0]
        for before, after in pairwise(self._known):
            reached.append(reached[-1] + self._wide(after - before))
        self._step = min(_WIDEST, _PLOT / max(1.0, reached[-1]))
        self._x = [_LEFT + self._step * each for each in reached]

    @property
    def roomy(self) -> bool:
        """Whether each turn has a place that can be seen."""
        return self._even and self._step >= 6

    def at(self, turn: float) -> float:
        """Where a turn is; between two turns for a fraction."""
        place = min(bisect_right(self._known, turn), len(self._known) - 1)
        if place == 0:
            return self._x[0]
        before, after = self._known[place - 1], self._known[place]
        share = (turn - before) / (after - before)
        return self._x[place - 1] + share * (self._x[place] - self._x[place - 1])

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """The turns that are named at the top."""
        wanted = [int(each) for each in steps(self._turns, 12) if each <= self._turns and each == int(each)]
        named: list[tuple[float, str]] = []
        for turn in wanted if self._even else self._known:
            x = self.at(turn)
            if not named or x - named[-1][0] >= 36:
                named.append((x, str(turn)))
        return tuple(named)

    def folds(self) -> tuple[Fold, ...]:
        """The stretches that are drawn shorter."""
        found: list[Fold] = []
        for place, (before, after) in enumerate(pairwise(self._known)):
            width = self._x[place + 1] - self._x[place]
            if not self._even and after - before > 2 * _FREE and width >= 8:
                title = f"turns {before} to {after}: nothing forks or ends here; drawn shorter"
                found.append(Fold(x=self._x[place] + width * 0.15, width=width * 0.7, title=title))
        return tuple(found)

    def _wide(self, turns: int) -> float:
        return turns if self._even or turns <= _FREE else _FREE + log2(turns / _FREE)


def _rows(of: Shape, kept: set[int]) -> dict[int, int]:
    """The row of every stem: its parent's for the first way on, one below all that came before for the others."""
    rows: dict[int, int] = {}
    used: set[int] = set()
    last = -1
    for number, stem in enumerate(of.stems):
        if number not in kept:
            continue
        if stem.parent is None or stem.parent in used:
            last += 1
            rows[number] = last
        else:
            rows[number] = rows[stem.parent]
        if stem.parent is not None:
            used.add(stem.parent)
    return rows


def _line(stems: Sequence[Stem], number: int, level: dict[int, float], across: _Columns, step: float) -> Line:
    stem = stems[number]
    x, end, y = across.at(stem.first), across.at(stem.last), level[number]
    above = y if stem.parent is None else level[stem.parent]
    bend = min(7.0, step / 2, max(0.0, end - x)) if y != above else 0.0
    if y == above:
        path = f"M{x:.1f} {y:.1f}H{end:.1f}"
    else:
        path = f"M{x:.1f} {above:.1f}V{y - bend:.1f}Q{x:.1f} {y:.1f} {x + bend:.1f} {y:.1f}H{end:.1f}"
    kind = stem.end.kind if stem.end is not None else "shared"
    title = f"turns {stem.first + 1} to {stem.last}" if stem.last > stem.first else f"turn {stem.last}"
    if stem.action:
        title += f": {stem.action[:160]}"
    return Line(path=path, kind=f"{kind}{'' if stem.mine else ' elsewhere'}", title=f"{title}; {_came_to(stem)}")


def _turns(placed: Sequence[tuple[Stem, float]], across: _Columns) -> str:
    """A dot for every turn, all as one path, where there is room for them."""
    if not across.roomy or sum(stem.last - stem.first for stem, _ in placed) > MARKS:
        return ""
    return "".join(
        f"M{across.at(turn):.1f} {y:.1f}h0" for stem, y in placed for turn in range(stem.first + 1, stem.last + 1)
    )


def _forks(stems: Sequence[Stem], kept: set[int], level: dict[int, float], across: _Columns, step: float) -> list[Sign]:
    made: list[Sign] = []
    size = 3.5 if step >= 20 else 2.2
    for number in sorted(kept):
        stem = stems[number]
        if len(stem.children) < 2:
            continue
        ways = [f"{stems[each].action[:80] or 'ends here'}: {_came_to(stems[each])}" for each in stem.children[:12]]
        more = len(stem.children) - len(ways)
        title = f"turn {stem.last}, {len(stem.children)} ways on\n" + "\n".join(ways)
        title += f"\nand {more} more" if more else ""
        made.append(Sign(x=across.at(stem.last), y=level[number], width=0.0, kind="fork", title=title, radius=size))
    return made


def _signs(placed: Sequence[tuple[Stem, float]], across: _Columns, step: float) -> list[Sign]:
    """Marks, merged where they would touch; further apart than that too, until there are few enough."""
    lift = {"risk": -min(8.0, step * 0.33), "snapshot": min(8.0, step * 0.33)}
    near = 9.0
    while True:
        made: list[Sign] = []
        for stem, y in placed:
            for kind in _NAMES:
                marks = [mark for mark in stem.marks if mark.kind == kind]
                made += _merged(marks, kind, y + lift.get(kind, 0.0), across, near)
        if len(made) <= MARKS or near > WIDTH:
            return made
        near *= 2


def _merged(marks: Sequence[Mark], kind: str, y: float, across: _Columns, near: float) -> list[Sign]:
    made: list[Sign] = []
    together: list[Mark] = []
    for mark in marks:
        if together and across.at(mark.turn) - across.at(together[-1].turn) >= near:
            made.append(_sign(together, kind, y, across))
            together = []
        together.append(mark)
    return [*made, _sign(together, kind, y, across)] if together else made


def _sign(marks: Sequence[Mark], kind: str, y: float, across: _Columns) -> Sign:
    first, last = marks[0].turn, marks[-1].turn
    # A chosen action stands before its turn's end, a word after it: neither hides the turn.
    aside = {"given": -0.5, "said": 0.5}.get(kind, 0.0)
    x = across.at(max(0.0, first + aside))
    if len(marks) == 1:
        title = f"turn {first}: {marks[0].words}"
    else:
        said = list(dict.fromkeys(mark.words for mark in marks))
        where = f"turns {first} to {last}" if last > first else f"turn {first}"
        title = f"{where}: {len(marks)} {_NAMES[kind][1]}\n" + "\n".join(said[:6])
        title += f"\nand {len(said) - 6} more" if len(said) > 6 else ""
    return Sign(x=x, y=y, width=max(0.0, across.at(last + aside) - x), kind=kind, title=title)


def _word(stem: Stem, x: float, y: float, listed: set[str]) -> Word:
    end = stem.end
    assert end is not None
    figure = "not ended" if end.kind == "open" else end.kind if end.score is None else f"{end.score:.2f}"
    beside = (
        [stem.action] if stem.action else ["ends here"] if stem.first == stem.last and stem.parent is not None else []
    )
    if end.place:
        beside.insert(0, end.place if end.mine else f"{end.run_id[:24]} {end.place}")
    room = int((WIDTH - x - 14) / _LETTER) - len(figure) - 3
    text = " · ".join(beside)
    title = [f"{end.kind}{'' if end.score is None else f', score {end.score:g}'}"]
    if end.safety is not None:
        title.append(f"safety {end.safety:g}")
    if end.trajectory_id:
        title += [f"{_many(end.turns, 'turn')}", *end.facts, f"{end.run_id} {end.place}, {end.trajectory_id[:12]}"]
    if stem.action:
        title.insert(0, stem.action)
    return Word(
        x=x,
        y=y,
        kind=end.kind,
        figure=figure,
        text=text if len(text) <= room else f"{text[: max(0, room - 1)]}…",
        title="\n".join(title),
        of=end.trajectory_id if end.trajectory_id in listed else "",
        faint=not end.mine,
    )


def _came_to(stem: Stem) -> str:
    count = sum(stem.paths.values())
    kinds = ", ".join(f"{stem.paths[kind]} {kind}" for kind in KINDS if stem.paths.get(kind))
    return f"{_many(count, 'path')} ({kinds})" + ("" if stem.value is None else f", mean score {stem.value:.2f}")


def _many(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"
