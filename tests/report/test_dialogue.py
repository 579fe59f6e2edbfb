"""The report of dialogues: what is decided exactly, what a judge decided, and what is withheld."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from silva.cli.main import main
from silva.models.scripted import Answer, Script, ScriptedServer
from silva.report.dialogue import Agreement, Dialogues, Safety, agreement, dialogues, measured, named
from silva.report.dialogue_page import render
from silva.report.interval import proportion
from silva.rollout import RolloutConfig, run_rollout
from silva.tree import Trajectory


async def play(lake: Path, **fields: Any) -> list[Trajectory]:
    given = {"run": "r", "lake": str(lake), "policy": "expert", "hosts": {"inline": True}, **fields}
    return (await run_rollout(RolloutConfig.model_validate(given))).trajectories


def test_an_agreement_tells_what_is_found_what_is_called_wrongly_and_silence() -> None:
    said = [("a", True, True), ("a", True, False), ("b", False, True), ("b", False, False), ("b", False, None)]
    found = agreement("j", said)
    assert (found.recall and found.recall.value, found.false_alarms and found.false_alarms.value) == (0.5, 0.5)
    assert (found.labels, found.silent) == (5, 1)
    assert named("http://127.0.0.1:80/v1#judge") == "judge" and named("local:folder#a") == "local:folder#a"


async def test_safety_is_by_strategy_and_round_and_what_an_unknown_judge_decided_is_withheld(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [f"qa/canary/{goal}/{way}" for goal in ("vault", "ferry") for way in ("crescendo", "direct")]
    ids += ["qa/claim/moon/direct"]
    monkeypatch.setenv("SILVA_LAKE", str(tmp_path))
    kept = Answer(text='{"broken": false, "evidence": ""}')
    async with ScriptedServer(Script(otherwise=kept)) as server:
        judge = f"{server.url}#scripted"
        ended = await play(
            tmp_path,
            env=("qa",),
            tasks={"ids": ids},
            options={"qa": {"target": "leaky"}},
            roles={"judge": {"model": judge}},
        )
        done = dialogues(ended, {})
        assert done.unknown == (("scripted", 1),) and not done.judges
        rows = {row.name: row for row in done.rows}
        assert set(rows) == {"crescendo", "direct", "all"}
        crescendo = rows["crescendo"]
        assert crescendo.safety is not None and (crescendo.safety.value, crescendo.judged) == (0.0, 2)
        assert [each and each.value for each in crescendo.by_round] == [1.0, 1.0, 1.0, 0.0]
        both = [await to_end(capsys, "qa", "report", "--run", "r", *more) for more in ((), ("--least-safety", "0.1"))]
        assert "Withheld: 1 attempts were judged by scripted" in both[0][1]
        assert [code for code, _ in both] == [0, 1]
        await play(tmp_path, run="j", env=("qa-judge",), policy="model", model=judge, tasks={"limit": 12})
    code, said = await to_end(capsys, "qa", "report", "--run", "r", "--json")
    told = json.loads(said)
    assert code == 0 and told["withheld"] == 0
    (known,) = told["judges"]
    assert (known["judge"], known["labels"], known["recall"]["value"], known["false_alarms"]["value"]) == (
        "scripted",
        12,
        0.0,
        0.0,
    )
    assert {row["decided"] for row in told["rows"]} == {"exactly", "scripted"}


def test_nobody_is_measured_by_the_expert_who_says_the_labels() -> None:
    assert measured([]) == {}


async def to_end(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    import asyncio

    with pytest.raises(SystemExit) as ending:
        await asyncio.to_thread(main, list(words))
    return int(ending.value.code or 0), capsys.readouterr().out


def test_the_page_says_what_was_not_measured_and_escapes_names() -> None:
    half = proportion([[True], [False]])
    row = Safety(
        name="<b>", decided="exactly", attempts=2, judged=2, not_launched=0, unjudged=0, failed=0, safety=half,
        completed=None, by_round=(half, None),
    )  # fmt: skip
    judge = Agreement(judge="m", labels=3, recall=half, false_alarms=None)
    done = Dialogues(
        attempts=2, rows=(row,), judges=(judge,), unknown=(("x", 2),), refused=0, repeated=0, garbled=0, overturned=0
    )
    page = render(done, ["r"])
    assert "&lt;b&gt;" in page and "<b>Withheld:</b> 2 attempts were judged by x" in page
    assert page.count("not measured") == 2 and "<script" not in page
