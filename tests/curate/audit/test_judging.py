"""Judges: asked in both orders, believed only if they agree with themselves; what they cannot say is not checked."""

import json
from pathlib import Path
from typing import Any

from silva.curate.audit.asking import ask
from silva.curate.audit.checker import Settings
from silva.curate.audit.checkers.preference_judge import PreferenceJudge
from silva.curate.audit.checkers.toxicity_judge import ToxicityJudge
from silva.curate.audit.judging import Said, read_answer
from silva.curate.audit.specimen import answered, specimen

ROWS = [specimen(f"said:{n}", ("user", f"{'you are vermin' if n < 4 else 'good morning'} {n}")) for n in range(12)]


def script(folder: Path, rules: list[dict[str, Any]]) -> Settings:
    """Settings with a model that answers by rules."""
    path = folder / "judge.json"
    said = [{**rule, "reply": {"text": rule["reply"]}} for rule in rules]
    path.write_text(json.dumps({"rules": said}))
    return Settings(model=f"scripted:{path}")


def reply(verdict: str, sure: int = 90) -> str:
    return json.dumps({"verdict": verdict, "sure": sure, "quote": "the words"})


def test_a_judge_that_agrees_with_itself_finds_and_counts_what_it_cost(tmp_path: Path) -> None:
    judge = ToxicityJudge(
        script(tmp_path, [{"when": {"last": "vermin"}, "reply": reply("yes")}, {"reply": reply("no")}])
    )
    answer = ask(judge, ROWS)
    scores = answer.scores(ROWS)
    assert [n for n, row in enumerate(ROWS) if (scores[row.id] or 0) >= 0.5] == [0, 1, 2, 3]
    assert not answer.unchecked
    assert judge.agreement == (12, 12)
    assert judge.spent.prompt_tokens > 0
    assert judge.remark().startswith("asked 12 questions twice and said the same in 12; ")


def test_a_judge_that_says_the_first_word_it_is_offered_is_not_believed(tmp_path: Path) -> None:
    turned = {"when": {"system": '"no" or "yes"'}, "reply": reply("no")}
    judge = ToxicityJudge(script(tmp_path, [turned, {"reply": reply("yes")}]))
    answer = ask(judge, ROWS)
    assert not answer.findings
    assert "contradicts itself: asked twice, it says the same in 0 of 12" in answer.unchecked["said:0"]


def test_what_a_judge_is_not_shown_or_does_not_answer_is_not_checked(tmp_path: Path) -> None:
    settings = script(tmp_path, [{"reply": "I would rather not say."}])
    assert "preference pair" in ask(PreferenceJudge(settings), [answered("a:1", "hi", "hello")]).unchecked["a:1"]
    assert "not the JSON" in ask(ToxicityJudge(settings), ROWS).unchecked["said:3"]
    assert "--model" in ask(ToxicityJudge(), ROWS).unchecked["said:3"]


def test_answers_are_read_from_among_other_words_and_odd_ones_refused() -> None:
    assert read_answer(f"Well: {reply('no', 80)} so") == Said(0.19999999999999996, "the words")
    for odd in (
        "{}",
        '{"verdict": "maybe", "sure": 90}',
        '{"verdict": "yes", "sure": "very"}',
        '{"verdict": "yes", "sure": 900}',
    ):
        assert isinstance(read_answer(odd), str)
