"""What is scored, what is kept of it, and what is refused."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from silva.curate.rows import read
from silva.curate.value import scorer as registry
from silva.curate.value.ranks import percentiles
from silva.curate.value.sample import NO_ANSWER, Sample, Samples
from silva.curate.value.scorer import Need, Options, Score, Scorer, make, scorers
from silva.curate.value.scorers.quality_rules import quality
from silva.curate.value.scoring import resolve, score
from silva.errors import StoreError, UsageError

PAIRS = [("Two and two?", "Four."), ("Say hello.", "Hello there."), ("Two and two?", "Four."), ("Empty?", "")]


class Letters(Scorer):
    """Counts letters, and how often it was asked."""

    name, summary, need = "letters", "how long an answer is", Need.PAIR

    class Options(Options):
        times: float = 1.0

    def __init__(self, options: Options | None = None, weights: str = "") -> None:
        super().__init__(options)
        self.asked: list[str] = []
        self.weights = weights

    def model(self) -> str:
        return self.weights

    def score(self, samples: Sequence[Sample]) -> Sequence[Score]:
        self.asked += [each.answer for each in samples]
        return [Score(len(each.answer) * self.options.times) for each in samples]


def samples(tmp_path: Path, pairs: list[tuple[str, str]] = PAIRS, name: str = "pairs.jsonl") -> Samples:
    file = tmp_path / name
    file.write_text("".join(json.dumps({"question": asked, "answer": said}) + "\n" for asked, said in pairs))
    return Samples.of_rows(read(str(file)))


def test_what_was_scored_is_kept_by_content_code_options_and_weights(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    first = Letters()
    made = score(samples(tmp_path), [first], kept)["letters"]
    assert [*made.values[:3]] == [5, 12, 5] and np.isnan(made.values[3])
    assert made.notes == {3: NO_ANSWER}
    assert sorted(first.asked) == ["Four.", "Hello there."]  # equal words are asked about once

    again = Letters()
    assert score(samples(tmp_path, PAIRS[::-1], "other.jsonl"), [again], kept)["letters"].known == 3
    assert again.asked == []

    # a data set of equal size, other options, other weights: nothing of the old is taken
    other = Letters()
    said = score(samples(tmp_path, [("Two and two?", "Five!!"), *PAIRS[1:]], "size.jsonl"), [other], kept)["letters"]
    assert other.asked == ["Five!!"] and said.values[0] == 6
    for changed in (Letters(Letters.Options(times=2.0)), Letters(weights="others")):
        score(samples(tmp_path), [changed], kept)
        assert sorted(changed.asked) == ["Four.", "Hello there."]


def test_each_row_has_its_own_score_whatever_their_lengths(tmp_path: Path) -> None:
    pairs = [("Say a lot.", "quite a lot of words"), ("Say less.", "few"), ("Say some.", "some words")]
    assert [*score(samples(tmp_path, pairs), [Letters()], tmp_path / "kept")["letters"].values] == [20, 3, 10]


def test_a_file_of_kept_scores_that_is_none_is_told(tmp_path: Path) -> None:
    asked = Letters()
    tmp_path.joinpath(f"letters-2-{asked.identity()}.sqlite").write_bytes(b"no database at all" * 99)
    with pytest.raises(StoreError, match="kept scores letters-"):
        score(samples(tmp_path), [asked], tmp_path)


class Odd(Letters):
    """Gives what is no score."""

    name = "odd"
    gives = math.nan

    def score(self, samples: Sequence[Sample]) -> Sequence[Score]:
        return [Score(self.gives) for _ in samples]


def test_what_is_no_number_is_no_score_and_too_few_are_refused(tmp_path: Path) -> None:
    made = score(samples(tmp_path), [Odd()], None)["odd"]
    assert np.isnan(made.values).all() and made.notes[0] == "the scorer gave nan, which is no score"

    class Short(Odd):
        def score(self, samples: Sequence[Sample]) -> Sequence[Score]:
            return []

    with pytest.raises(UsageError, match="said 0 scores of 2 samples"):
        score(samples(tmp_path), [Short()], None)


def test_a_large_row_half_a_letter_and_two_languages_are_scored(tmp_path: Path) -> None:
    pairs = [("Long?", "word " * 2_100_000), ("Half?", "half \ud800 of it."), ("你好？", "Guten Tag, 你好 und hello.")]
    made = score(samples(tmp_path, pairs), resolve(["quality_rules"], {}), None)["quality_rules"]
    assert not np.isnan(made.values).any()
    assert made.values[0] < 0.05 < made.values[2]


def test_ranks_count_ties_half_and_leave_out_what_has_no_score() -> None:
    assert [*percentiles(np.array([3.0, 1.0, 2.0]))] == [1.0, 0.0, 0.5]
    tied = percentiles(np.array([1.0, 1.0, np.nan, 5.0]))
    assert [*tied[:2], tied[3]] == [0.25, 0.25, 1.0] and np.isnan(tied[2])
    assert [*percentiles(np.array([np.nan, 7.0]))][1] == 0.5


def test_quality_knows_plain_faults() -> None:
    good = (
        "A bicycle has two wheels, which are driven by a chain. The rider turns the pedals, and gears let him choose "
        "how hard that is. Brakes stop it again."
    )
    for worse in (
        "ok",
        "the the the the the the the the the the",
        good[:-9],
        "#### 123 ---- 456 ==== 789 |||| 0123456789",
    ):
        assert quality(worse) < quality(good)
    assert quality(good) == 1.0


def test_the_nine_are_there_and_those_without_weights_say_what_they_need() -> None:
    nine = {"ppl", "norm_loss", "ifd", "deita_q", "deita_c", "deberta", "fineweb_edu", "ask_llm", "fused"}
    assert nine | {"outcome", "progress", "surprise", "risk"} <= set(scorers())
    # The fused one asks IFD first, which has a model of its own where torch is.
    fused = ("fused",) if importlib.util.find_spec("torch") else ()
    for name in ("deita_q", "deita_c", "deberta", "fineweb_edu", "ask_llm", *fused):
        with pytest.raises(UsageError, match=r"needs .*options\.\w+\.model=") as told:
            resolve([name], {})
        assert "\n" not in str(told.value)
    with pytest.raises(UsageError, match="did you mean ifd"):
        make("idf")
    with pytest.raises(UsageError, match=r"options\.ifd\.tokns"):
        make("ifd", {"tokns": 3})
    with pytest.raises(UsageError, match=r"options\.ppl: no scorer of that name is asked"):
        resolve(["quality_rules"], {"ppl": {}})


def test_two_scorers_of_one_name_are_refused() -> None:
    class Double(Letters):
        name = "ppl"

    with pytest.raises(UsageError, match="two scorers are called 'ppl'"):
        registry.scorer(Double)


def silva(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "silva", *words], capture_output=True, text=True, check=False)


def test_the_command_scores_a_file(tmp_path: Path) -> None:
    file, output = tmp_path / "rows.jsonl", tmp_path / "scores.jsonl"
    lines = [{"question": "Colours?", "answer": "Red, green and blue are three of them."}, {"text": ""}, {"n": 1}]
    file.write_text("\n".join(map(json.dumps, lines)))
    made = silva("data", "score", str(file), "--scorer", "quality_rules", "-o", str(output), "--json")
    assert made.returncode == 0, made.stderr
    said = json.loads(made.stdout)
    assert said["rows"] == 1 and len(said["unread"]) == 2
    assert [json.loads(line)["id"] for line in output.read_text().splitlines()] == ["rows.jsonl:1"]
    again = silva("data", "score", str(file), "--scorer", "quality_rules", "-o", str(output))
    assert again.returncode == 2 and "--force" in again.stderr
    walks = silva("data", "score", str(file), "--scorer", "outcome")
    assert walks.returncode == 2 and "no row has a score: it is no trajectory" in walks.stderr
