"""OpenEnv: real training traces and episodes are read whole; what is written loses nothing and makes no token up."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from frameworks import again, golden_writer, lines, rows, spoilt
from grown import bundles, contents
from hypothesis import given
from hypothesis import strategies as st

from silva.tree import Author, Status, Supervision, Tokens, Tree, token_walk
from silva.tree.formats import Bundle, FormatError, merged, openenv

REAL = "openenv.jsonl"


def read_row(row: Any) -> Bundle:
    (bundle,) = openenv.read([json.dumps(row)])
    return bundle


@given(bundle=bundles())
def test_round_trip_loses_nothing(bundle: Bundle) -> None:
    assert contents(again(openenv, [bundle])) == contents(bundle)


@given(bundle=bundles())
def test_a_training_trace_keeps_the_rules_of_its_checks(bundle: Bundle) -> None:
    for line in openenv.write([bundle]):
        for turn in json.loads(line).get("turns", []):
            prompt, sampled = turn["prompt_token_ids"], turn["completion_token_ids"]
            assert prompt and len(turn["per_token_logps"]) == len(sampled)
            assert len(turn["loss_mask"]) == len(prompt) + len(sampled) and not any(turn["loss_mask"][: len(prompt)])


@pytest.mark.parametrize("place", [0, 1], ids=["training trace", "trace entries"])
def test_a_real_capture_is_read_turn_by_turn(place: int) -> None:
    bundle = read_row(rows(REAL)[place])
    (trajectory,) = bundle.trajectories
    walk = bundle.walk(trajectory)
    assert [node.message.role for node in walk] == ["system", "user", "assistant", "tool", "assistant"]
    assert [node.author is Author.POLICY for node in walk] == [False, False, True, False, True]
    assert walk[0].tools is not None and walk[0].tools[0].name == "add" and walk[2].tools is None
    assert walk[2].message.tool_calls[0].arguments == '{"x": 1, "y": 2}'  # as sampled, not as sent back
    assert walk[2].tokens == Tokens(ids=(1, 11, 2, 1, 21, 2, 3, 31, 32, 2), sampled=3, logprobs=(-0.25, -0.5, -0.75))
    assert walk[4].tokens == Tokens(ids=(1, 41, 2, 3, 33, 34, 2), sampled=3, logprobs=(-0.25, -0.5, -0.75))
    assert token_walk(walk).ids == (1, 11, 2, 1, 21, 2, 3, 31, 32, 2, 1, 41, 2, 3, 33, 34, 2)
    assert (walk[4].message.thinking, walk[4].message.text) == ("One and two make three.", "The answer is 3.")
    assert (walk[4].finish_reason, walk[4].model, trajectory.model) == ("stop", "m", "m")
    assert not bundle.supervisions and trajectory.outcome.score is None


def test_a_collected_episode_is_read() -> None:
    bundle = read_row(rows(REAL)[2])
    (trajectory,) = bundle.trajectories
    assert (trajectory.task_id, trajectory.reward, trajectory.turns) == ("openenv/sum", 1.0, 2)
    assert trajectory.outcome.score == 1.0 and trajectory.outcome.metrics == {"turns": 2.0, "right": 1.0}
    assert bundle.tasks[0].instruction == "What is 1 + 2?"
    cut = read_row(rows(REAL)[2] | {"done": False})
    assert cut.trajectories[0].outcome.status is Status.TRUNCATED


def test_real_rows_go_out_as_they_came() -> None:
    trace, _, episode = rows(REAL)
    for row in (trace, episode):
        (written,) = map(json.loads, openenv.write([read_row(row)]))
        if "turns" in row:
            for turn, before in zip(written["turns"], row["turns"], strict=True):
                for key in ("node_id", "prompt_token_ids", "completion_token_ids", "per_token_logps", "loss_mask"):
                    assert turn[key] == before[key]
                assert turn["request"]["tools"] == before["request"]["tools"]
                assert {key: turn["metadata"][key] for key in before["metadata"]} == before["metadata"]
        else:
            written["extra"].pop("silva")
            written["messages"] = row["messages"] = None
            assert written == row


def test_a_rewritten_history_branches_and_restarts() -> None:
    row = rows(REAL)[0]
    later = row["turns"][1]
    later["request"]["messages"] = [{"role": "user", "content": "In short: 1 + 2?"}]
    later["prompt_token_ids"], later["loss_mask"] = [9, 9], [0, 0, 1, 1, 1]
    bundle = read_row(row)
    assert len(Tree(bundle.nodes).roots) == 2
    walk = bundle.walk(bundle.trajectories[0])
    assert [node.message.text for node in walk] == ["In short: 1 + 2?", "The answer is 3."]
    assert walk[1].tokens == Tokens(ids=(9, 9, 33, 34, 2), sampled=3, logprobs=(-0.25, -0.5, -0.75))
    assert contents(again(openenv, [bundle])) == contents(bundle)


def test_masked_turns_are_masked_and_written_masked() -> None:
    row = rows(REAL)[0]
    row["turns"][0]["loss_mask"] = [0] * 10
    row["turns"][1]["loss_mask"][-1] = 0
    bundle = read_row(row)
    walk = bundle.walk(bundle.trajectories[0])
    assert [(s.node_id, s.verdict) for s in bundle.supervisions] == [(walk[2].id, "mask"), (walk[4].id, "mask")]
    (written,) = map(json.loads, openenv.write([bundle]))
    assert [turn["loss_mask"] for turn in written["turns"]] == [turn["loss_mask"] for turn in row["turns"]]


def test_a_turn_that_a_person_masks_is_no_target() -> None:
    bundle = read_row(rows(REAL)[0])
    leaf = bundle.trajectories[0].leaf_id
    assert leaf is not None
    fields: Any = {"node_id": leaf, "run_id": bundle.run.id, "source": "person", "by": "someone"}
    masked = Supervision(id="a", verdict="mask", at=2.0, **fields)
    judged = Bundle(
        run=bundle.run,
        tasks=bundle.tasks,
        trajectories=bundle.trajectories,
        nodes=bundle.nodes,
        supervisions=(masked, Supervision(id="b", verdict="keep", at=1.0, **fields)),
    )
    (written,) = map(json.loads, openenv.write([judged]))
    assert [any(turn["loss_mask"]) for turn in written["turns"]] == [True, False]


def test_without_exact_tokens_it_is_an_episode_and_no_trace() -> None:
    golden = golden_writer().exact_bundle(0)
    bundle = Bundle(
        run=golden.run,
        tasks=golden.tasks,
        trajectories=golden.trajectories,
        nodes=tuple(msgspec.structs.replace(node, tokens=None) for node in golden.nodes),
    )
    (written,) = map(json.loads, openenv.write([bundle]))
    assert "turns" not in written and written["episode_id"] == golden.trajectories[0].id
    assert written["tool_trace"][0]["tool_name"] == "look" and written["tool_trace"][0]["result"]["data"] == "a dot"
    assert contents(again(openenv, [bundle])) == contents(bundle)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"per_token_logps": [-1.0]}, "turns[1].per_token_logps"),
        ({"loss_mask": [0, 1]}, "turns[1].loss_mask"),
        ({"loss_mask": [1] * 17}, "turns[1].loss_mask"),
        ({"prompt_token_ids": ["a"]}, "turns[1].prompt_token_ids[0]"),
        ({"response": {"choices": []}}, "turns[1].response.choices"),
        ({"request": {"messages": [{"role": "x"}]}}, "turns[1].request.messages[0].role"),
    ],
)
def test_a_fault_is_named_by_line_and_field(change: dict[str, Any], field: str) -> None:
    row = rows(REAL)[0]
    row["turns"][1] |= change
    with pytest.raises(FormatError) as caught:
        list(openenv.read([b"\n", json.dumps(row)], "traces.jsonl"))
    assert (caught.value.line, caught.value.field) == (2, field)


@given(row=st.sampled_from(rows(REAL)).flatmap(spoilt))
def test_a_spoilt_row_is_read_or_refused_by_name(row: Any) -> None:
    try:
        bundle = read_row(row)
    except FormatError as error:
        assert error.line == 1
    else:
        assert contents(again(openenv, [bundle])) == contents(bundle)


def test_the_golden_file_written_by_an_earlier_silva_still_opens() -> None:
    read = merged(openenv.read(lines("silva-openenv.jsonl")))
    assert [contents(bundle) for bundle in read] == [contents(b) for b in merged(golden_writer().bundles())]


def test_traces_entries_and_episodes_are_recognised() -> None:
    for row in (*rows(REAL), *rows("silva-openenv.jsonl")):
        assert openenv.recognise(json.dumps(row).encode()[:4096], row)
    assert not openenv.recognise(b"", {"schema_version": "ATIF-v1.8", "steps": []})
    assert not openenv.recognise(b"", {"messages": []}) and not openenv.recognise(b"PK", None)
