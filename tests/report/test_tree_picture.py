"""The picture of a tree: nothing is left out without a word, nothing is drawn over another, and it stays small."""

from __future__ import annotations

import itertools
import random
import re

import msgspec
import pytest
from grown_runs import HOSTILE, Grown
from grown_trees import Grove
from hypothesis import given, settings
from hypothesis import strategies as st
from test_page import VOID, read

from silva.report import summarise
from silva.report.page import render
from silva.report.picture import MARKS, PATHS, WIDTH, about, picture
from silva.report.shape import Shape, drawn, shape

VOID |= {"path"}


def shaped(grove: Grove, run: str = "night") -> Shape:
    return shape(grove.tree, grove.trajectories, run)


def page(grown: Grown, *groves: Grove, run: str = "night") -> str:
    """The report of the run that grew the trees."""
    by_id = {grove.id: grove for grove in groves}
    attempts = [each for grove in groves for each in grove.trajectories if each.run_id == run]
    return render(
        msgspec.structs.replace(grown.run, id=run),
        summarise(attempts),
        attempts,
        lambda each: by_id[each.tree_id].walk(each),
        conversations=1,
        tree=lambda name: (by_id[name].tree, by_id[name].trajectories),
    )


def forked() -> Grove:
    """A path with a risk and snapshots, another attempt, and three ways on from turn 6 that another run tried."""
    grove = Grove()
    grove.path(12, snapshots=(3, 6, 9), risks=(8,), success=False, score=0.2)
    grove.path(9, success=True)
    grove.path(7, at=6, run="tried", given="toggle", success=True)
    grove.path(10, at=6, run="tried", given="drop", success=False, score=0.4)
    grove.path(11, at=6, run="tried", said="Ask first.", words="ask", success=True)
    return grove


def test_turns_without_a_fork_are_one_stem_and_its_marks_stand_on_it() -> None:
    found = shaped(forked())
    assert found.forks == 2 and found.turns == 12
    assert found.paths == {"solved": 3, "unsolved": 2}
    shared = found.stems[found.stems[0].children[0]]
    assert (shared.first, shared.last) == (0, 6)
    assert [(mark.turn, mark.kind) for mark in shared.marks] == [(3, "snapshot"), (6, "snapshot")]
    before, *tried = (found.stems[number] for number in shared.children)
    assert [(mark.turn, mark.kind) for mark in before.marks] == [(8, "risk"), (9, "snapshot")]
    assert [stem.mine for stem in (before, *tried)] == [True, False, False, False]
    assert [stem.marks[0].kind for stem in tried] == ["given", "given", "said"]
    assert [stem.value for stem in (before, *tried)] == [0.2, 1.0, 0.4, 1.0]
    assert shared.value == (0.2 + 1.0 + 0.4 + 1.0) / 4


def test_a_path_that_another_goes_on_from_has_an_end_of_its_own() -> None:
    grove = Grove()
    grove.path(5, success=False)
    grove.path(8, at=5, success=True)
    found = shaped(grove)
    assert found.paths == {"solved": 1, "unsolved": 1} and found.forks == 1
    (fork,) = (stem for stem in found.stems if stem.children)
    assert fork.last == 5
    ends = [found.stems[number] for number in fork.children]
    assert [(each.first, each.last) for each in ends] == [(5, 5), (5, 8)]


def test_a_path_without_a_trajectory_is_open() -> None:
    grove = Grove()
    grove.path(4, success=True)
    grove.path(3, ends=False)
    assert shaped(grove).paths == {"solved": 1, "open": 1}
    assert any(word.figure == "not ended" for word in picture(shaped(grove)).words)


def test_the_page_draws_the_tree_with_everything_that_stands_in_it(grown: Grown) -> None:
    text = page(grown, forked(), run="tried")
    reader = read(text)
    titles = [text for text in reader.words if "turn" in text]
    for words in (
        "risk: pay (0.5), rules",
        "snapshot 000300030003 (exact)",
        "action chosen by a person: drop(n=7)",
        "a person spoke: Ask first.",
        "turn 6, 4 ways on",
        "drop(n=7): 1 path (1 unsolved), mean score 0.40",
    ):
        assert any(words in title for title in titles), words
    drawings = [attributes for tag, attributes in reader.elements if tag == "svg" and attributes.get("role") == "img"]
    (named,) = (each["aria-labelledby"] for each in drawings if "aria-labelledby" in each)
    ids = {attributes["id"] for tag, attributes in reader.elements if tag in ("title", "desc") and "id" in attributes}
    assert set((named or "").split()) <= ids
    links = {attributes["href"] for tag, attributes in reader.elements if tag == "a"}
    anchors = {f"#{attributes['id']}" for _, attributes in reader.elements if (attributes.get("id") or "")[:2] == "t-"}
    assert links and links <= anchors
    assert text.count("stem unsolved elsewhere") == 1, "what another run grew looks different"


def test_what_agents_wrote_is_text_in_the_picture_too(grown: Grown) -> None:
    grove = Grove()
    grove.path(3, words=HOSTILE, success=True)
    grove.path(3, words=f"</title></svg>{HOSTILE}", said="my key is AKIAIOSFODNN7EXAMPLE", success=False)
    text = page(grown, grove)
    reader = read(text)
    assert not [each for each in reader.elements if each[0] in ("script", "iframe", "object", "form")]
    assert not [name for _, attributes in reader.elements for name in attributes if name.startswith("on")]
    pictures = text[text.index('<section class="trees">') : text.index('<section class="attempts">')]
    assert "AKIAIOSFODNN7EXAMPLE" not in pictures and "<script" not in pictures


def test_trees_without_anything_to_show_are_not_drawn(grown: Grown) -> None:
    plain, marked = Grove("shop/1"), Grove("shop/2")
    plain.path(4, success=True)
    marked.path(4, success=True, snapshots=(2,))
    assert "Trees" not in " ".join(read(page(grown, plain)).words)
    assert page(grown, plain, marked).count('<details class="grove"') == 1


def large(paths: int = 200, turns: int = 2_000) -> Grove:
    draw = random.Random(1)
    grove = Grove()
    grove.path(turns, success=False, snapshots=tuple(range(1, turns)), risks=tuple(draw.sample(range(turns), 30)))
    ends = [turns]
    for _ in range(paths - 1):
        of = draw.randrange(len(ends))
        at = draw.randrange(ends[of])
        ends.append(at + draw.randrange(1, 30))
        grove.path(ends[-1], of=of, at=at, success=draw.random() < 0.3)
    return grove


@pytest.mark.slow
def test_a_large_tree_stays_small_and_readable(grown: Grown) -> None:
    grove = large()
    found = picture(shaped(grove))
    assert found.undrawn == 0 and len(found.words) == 200
    assert len({word.y for word in found.words}) == 200, "every path has a row of its own"
    assert len(found.signs) <= MARKS + 200
    assert all(0 <= place <= WIDTH for place, _ in found.ticks)
    assert all(b - a >= 36 for (a, _), (b, _) in itertools.pairwise(found.ticks))
    text = page(grown, grove)
    pictures = text[text.index('<section class="trees">') : text.index('<section class="attempts">')]
    assert len(pictures) < 350_000


def test_of_more_paths_than_are_drawn_the_rest_is_counted() -> None:
    grove = Grove()
    grove.path(3, success=True)
    for number in range(PATHS + 60):
        grove.path(3, at=number % 3, success=False, run="" if number % 2 else "other")
    found = shaped(grove)
    made = picture(found)
    assert made.undrawn == 61 and len(made.words) == PATHS
    assert about(found).startswith(f"{PATHS + 61:,} paths: 1 solved, {PATHS + 60} unsolved")
    kept = drawn(found.stems, PATHS)
    assert all(number in kept for number, stem in enumerate(found.stems) if stem.end is not None and stem.mine)


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40), st.integers(1, 12)), max_size=8),
    trunk=st.integers(0, 120),
)
def test_no_line_lies_on_another_and_time_runs_to_the_right(steps: list[tuple[int, int, int]], trunk: int) -> None:
    grove = Grove()
    grove.path(trunk, success=True)
    ends = [trunk]
    for of, at, more in steps:
        of %= len(ends)
        at = min(at, ends[of])
        ends.append(at + more)
        grove.path(ends[-1], of=of, at=at, success=False)
    found = shaped(grove)
    assert sum(found.paths.values()) == len(ends)
    made = picture(found)
    rows: dict[str, list[tuple[float, float]]] = {}
    for line in made.lines:
        numbers = re.findall(r"-?\d+\.\d", line.path)
        start, end = float(numbers[0]), float(numbers[-1])
        assert end >= start
        rows.setdefault(
            re.findall(r"[ V](-?\d+\.\d)", line.path)[-1] if "Q" not in line.path else numbers[-2], []
        ).append((start, end))
    for spans in rows.values():
        spans.sort()
        assert all(right[0] >= left[1] for left, right in itertools.pairwise(spans))
