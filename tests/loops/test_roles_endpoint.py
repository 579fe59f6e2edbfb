"""Roles that a model plays: what it says is used as far as it can be, carried out before it counts, and paid for."""

from __future__ import annotations

from pathlib import Path

import pytest

from silva.envs import HostPool, Registry
from silva.errors import UsageError
from silva.lake import Lake
from silva.loops.roles import Context, ExploreConfig, Held, ValidationConfig, Validator, explore, make
from silva.models.scripted import Script, ScriptedServer
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.acted import acted_on
from silva.tree import Author

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
SHELF = f"{HERE / 'shelf.py'}:Shelf"


async def test_a_model_explores_chooses_what_is_worth_a_task_and_its_solutions_are_carried_out(tmp_path):
    script = Script(function="roles_replies.py:reply", folder=str(HERE))
    fields = {"env": SHELF, "lake": str(tmp_path / "lake"), "policy": "null", "hosts": {"inline": True}}
    made = await run_rollout(RolloutConfig.model_validate({**fields, "run": "first", "tasks": {"ids": ["shelf/4"]}}))
    context = Context(trajectory=made.trajectories[0].id, signal="rare", focus="the far end", evidence="never seen")
    with ScriptedServer(script) as server:
        asks = {"model": f"{server.url}#scripted", "input_price": 1e6, "output_price": 1e6}
        async with Lake.open(str(tmp_path / "lake")) as lake, HostPool(Registry.load().entry(SHELF)) as pool:
            explorer = make("explorer", "endpoint", {**asks, "valid": True})
            base = RolloutConfig.model_validate({**fields, "run": "explored"})
            explored = await explore(lake, base, explorer, [context], ExploreConfig(rounds=2, steps=6))
            assert explored.turns == 12 and explored.acted.usd > 0 and explored.acted.model == asks["model"]
            for walk in explored.walks:
                nodes = lake.walk(walk.trajectory)
                told = [node.message.text for node in nodes if node.author is Author.PERSON]
                assert len(told) == 1 and "the far end" in told[0] and "never seen" in told[0]
                acts = [node for node in nodes if node.author is Author.POLICY]
                # What is no action here is replaced by one that is, and has no ids that nobody sampled.
                assert all(node.message.tool_calls[0].parsed()["action"] != "fly" for node in acts)
                assert all(acted_on(node)[0].prompt == explorer.prompt for node in acts)
            async with pool.lease() as env:
                abstracter = make("abstracter", "endpoint", {**asks, "each": 2, "whole": True})
                found = await abstracter.abstract(env, lake, explored.walks)
                # A goal that is not there is left out; actions that are not there give way to those without loops.
                assert [len(each.solution) for each in found[:2]] == [1, 4]
                assert sum(each.acted[0].prompt_tokens for each in found) == abstracter.spent.prompt_tokens > 0
                place = (await pool.tasks(ids=["shelf/2"]))[0]
                writer = make("writer", "endpoint", {**asks, "shown": 5})
                drawn = await writer.write(env, place, 3)
                assert len(drawn) == 2 and drawn[0].notes == {"why": "practice"}
                assert sum(each.acted[0].usd for each in drawn) == pytest.approx(writer.spent.usd)
                held = await Held.of(env, [])
            verdicts = await Validator(pool.lease, held, ValidationConfig()).validate([*found[:2], *drawn])
            assert "trivial" in [each.reason for each in verdicts] and verdicts[2].reason == "unsolved"
            with pytest.raises(UsageError, match="explorer endpoint: name a model to ask"):
                make("explorer", "endpoint").playing(base)
