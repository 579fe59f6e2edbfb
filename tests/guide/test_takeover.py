"""An action that a person takes in the policy's place can be learnt: its ids are the renderer's, and the loss that it
carries covers it and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from silva.curate.pairs import correction_pairs, pairs_of_run
from silva.lake import Lake
from silva.loops.apollo.script import ScriptedRules
from silva.loops.apollo.speaking import ScriptedMailroom
from silva.models.exact import open_renderer
from silva.models.scripted import Script, ScriptedServer
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.guided_nodes import INSTEAD_OF
from silva.rollout.react import render
from silva.rollout.run import Hooks
from silva.train.lake_samples import collect
from silva.train.rows import Rows, read_rows
from silva.train.sample import SampleError
from silva.train.step_pairs import preferences
from silva.train.stretch import Reading
from silva.tree import Author, Node, seen_ids

WRONG = """
import json

def reply(request):
    texts = [str(m["content"] or "") for m in request["messages"]]
    calls = sum(m["role"] == "assistant" for m in request["messages"])
    if calls > 5:
        return "7"
    call = {"name": "add", "arguments": {"number": 1000}, "id": f"c{calls}"}
    if FORM == "tools":
        return {"tool_calls": [call]}
    return "Action: add" + chr(10) + "Action Input: " + json.dumps(call["arguments"])
"""

KNOWS = (
    {"when": {"expert": "another"}, "bad": True, "times": 0},
    {"when": {"waits": ".", "expert": "another", "every": 2}, "edit": {"expert": True}, "times": 0},
    {"when": {"waits": "."}, "approve": True, "times": 0},
)
BACK = ({"when": {"turn": 1, "expert": "another"}, "back": {"action": {"expert": True}}},)


class Played:
    """A run with somebody who takes over, read."""

    def __init__(self, lake: Path) -> None:
        self.lake = lake
        with Lake.open(lake, mode="read") as opened:
            self.trajectories = [each for each in opened.trajectories(run_id="r") if not each.superseded]
            (self.trajectory,) = self.trajectories
            self.walk: list[Node] = list(opened.walk(self.trajectory))
        self.taken = [node for node in self.walk if node.author is Author.PERSON and node.message.role == "assistant"]

    def rows(self, **more: Any) -> Rows:
        with Lake.open(self.lake, mode="read") as opened:
            return read_rows(opened, self.trajectories, **more)


async def played(
    folder: Path, script: tuple[dict[str, Any], ...], *, form: str = "react", renderer: str = "scripted"
) -> Played:
    (folder / "wrong.py").write_text(WRONG.replace("FORM", repr(form)))
    async with ScriptedServer(Script(function="wrong.py:reply", folder=str(folder))) as server:
        config = RolloutConfig.model_validate(
            {
                "run": "r",
                "env": "arithmetic",
                "lake": str(folder / "lake"),
                "model": f"{server.url}?token_ids=true#scripted",
                "agent": form,
                "tasks": {"split": "chain", "limit": 1},
                "budget": {"turns": 6},
                "retries": 0,
                "hosts": {"inline": True},
                "guidance": {"approve": "none" if script is BACK else "all", "renderer": renderer},
            }
        )
        room = ScriptedMailroom.scripted(ScriptedRules.model_validate({"rules": script}), config.lake, "r")
        result = await run_rollout(config, hooks=Hooks(guidance=room))
    assert [each.outcome.failure for each in result.trajectories] == [None] * len(result.trajectories)
    return Played(folder / "lake")


@pytest.mark.parametrize("form", ["tools", "react"])
async def test_what_a_person_takes_has_the_renderers_ids_and_exactly_it_carries_the_loss(home: Path, form: str) -> None:
    run = await played(home, KNOWS, form=form)
    assert len(run.taken) == 3 and all(node.attributes[INSTEAD_OF] for node in run.taken), "every second turn of six"
    renderer, tools = open_renderer("scripted"), run.walk[0].tools or ()
    for node in run.taken:
        upto = run.walk[: run.walk.index(node) + 1]
        messages = tuple(each.message for each in upto)
        shown, offered = (render(messages, tools), ()) if form == "react" else (messages, tools)
        whole = list(renderer.render(shown, offered, generation_prompt=False))
        ids, tokens = seen_ids(upto), node.tokens
        assert ids is not None and tokens is not None and whole[: len(ids)] == ids and ids[-1] in renderer.stop_ids
        before = renderer.render(render(messages[:-1], tools) if form == "react" else messages[:-1], offered)
        assert list(before) + list(tokens.ids[len(tokens.ids) - tokens.sampled :]) == ids and not tokens.logprobs
    lossy: list[str] = []
    for row in run.rows(takeovers=True).rows:  # one, or one more for each turn at which a server writes tools otherwise
        spans = np.zeros(len(row.sample.ids), bool)
        for each in row.sample.actions:
            if row.sample.mask[each.start : each.stop].any():
                lossy.append(each.node_id)
                spans[each.start : each.stop] = True
        assert (row.sample.mask == spans).all(), "exactly the action: no prompt, no answer"
    assert sorted(lossy) == sorted(node.id for node in run.taken), "the policy's own are all wrong, and called bad"


async def test_a_correction_is_a_pair_of_what_the_person_took_and_what_the_policy_was_about_to(home: Path) -> None:
    run = await played(home, KNOWS)
    with Lake.open(run.lake, mode="read") as lake:
        found = pairs_of_run(lake, "r", correction_pairs)
        made, left = preferences(lake, [each.steps for each in found.pairs])
        nodes = {node.id: node for node in lake.nodes(run_id="r")}
    assert [each.chosen_id for each in found.pairs] == [node.id for node in run.taken] and not left
    for pair, preference in zip(found.pairs, made, strict=True):
        assert (pair.by, nodes[pair.rejected_id].author) == ("person", Author.POLICY)
        for side, name in ((preference.chosen, pair.chosen_id), (preference.rejected, pair.rejected_id)):
            tokens = nodes[name].tokens
            assert tokens is not None, "the policy's was called bad, and is the side to unlearn"
            assert side.ids[side.mask].tolist() == list(tokens.ids[-tokens.sampled :])


async def test_without_the_option_what_a_person_took_is_context(home: Path) -> None:
    run = await played(home, KNOWS)
    (row,) = run.rows(masking=False).rows
    (other,) = run.rows(masking=False, takeovers=True).rows
    assert row.sample.ids.tolist() == other.sample.ids.tolist(), "the same is read"
    mine = {node.id for node in run.taken}
    assert not mine & {each.node_id for each in row.sample.actions}
    assert mine < {each.node_id for each in other.sample.actions}


async def test_going_back_to_take_the_experts_action_has_ids_too(home: Path) -> None:
    run = await played(home, BACK)
    assert [node.tokens is not None for node in run.taken] == [True]
    (row,) = run.rows(masking=False, takeovers=True).rows
    assert row.sample.actions[0].node_id == run.taken[0].id and row.sample.mask[row.sample.actions[0].start]


async def test_an_action_without_ids_is_refused_by_name_where_it_is_to_be_learnt(home: Path) -> None:
    run = await played(home, KNOWS, renderer="")
    assert run.rows(masking=False).rows
    with pytest.raises(SampleError, match=r"is a person's and has no token ids: its run named no guidance\.renderer"):
        run.rows(takeovers=True)


async def test_an_action_that_the_form_cannot_hold_is_taken_and_says_why_it_cannot_be_learnt(home: Path) -> None:
    two = [{"name": "add", "arguments": {"number": each}} for each in (1, 2)]
    run = await played(home, ({"when": {"waits": "."}, "edit": two}, KNOWS[2]))
    assert len(run.taken[0].message.tool_calls) == 2
    with pytest.raises(SampleError, match="2 calls in one turn cannot be written in react's form"):
        run.rows(takeovers=True)


async def test_what_a_person_took_is_imitated_not_weighed(home: Path) -> None:
    run = await played(home, KNOWS)
    with Lake.open(run.lake, mode="read") as lake, pytest.raises(SampleError, match="imitated, not weighed"):
        collect(lake, run.trajectories, Reading(takeovers=True, models=frozenset()))
