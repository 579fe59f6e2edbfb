"""verifiers: real traces are read whole, with branches and tokens; what is written loses nothing on its way back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from frameworks import again, golden_writer, lines, rows, spoilt
from grown import bundles, contents
from hypothesis import given
from hypothesis import strategies as st

from silva.tree import Author, Boundary, Status, TextPart, ThinkingPart, Tokens, Tree, token_walk
from silva.tree.formats import Bundle, FormatError, merged, verifiers

TRACES = "verifiers.jsonl"


def read_row(row: Any) -> list[Bundle]:
    return list(verifiers.read([json.dumps(row)]))


@given(bundle=bundles())
def test_round_trip_loses_nothing(bundle: Bundle) -> None:
    assert contents(again(verifiers, [bundle])) == contents(bundle)


def test_a_real_evaluation_is_read_as_it_ran() -> None:
    solved, _, broken, _, _ = verifiers.read(lines(TRACES))
    (trajectory,) = solved.trajectories
    system, asked, called, answered, said = solved.walk(trajectory)
    assert solved.tasks[0].id == "silva-small/sum" and solved.tasks[0].instruction == "What is 1 + 2?"
    assert [node.author for node in solved.nodes].count(Author.POLICY) == trajectory.turns == 2
    assert (system.message.text, asked.message.text) == ("Answer briefly.", "What is 1 + 2?")
    assert system.tools is not None and [tool.name for tool in system.tools] == ["add"]
    assert called.message.tool_calls[0].arguments == '{"x":1,"y":2}' and called.finish_reason == "tool_calls"
    assert (answered.message.tool_call_id, answered.message.text) == (called.message.tool_calls[0].id, "3")
    assert said.message.text == "The answer is 3." and said.model == "scripted"
    assert (said.usage.prompt_tokens, said.usage.completion_tokens) == (261, 17)
    assert trajectory.outcome.score == trajectory.reward == 1.0
    assert trajectory.outcome.metrics == {"right": 1.0, "turns": 2.0}
    failure = broken.trajectories[0].outcome.failure
    assert failure is not None and failure.boundary is Boundary.AGENT and failure.code == "verifiers.HarnessError"
    assert broken.trajectories[0].outcome.status is Status.FAILED and broken.trajectories[0].outcome.score is None


def test_rollouts_of_one_task_stand_on_one_tree() -> None:
    (bundle,) = merged(verifiers.read(lines(TRACES)))
    sums = [t for t in bundle.trajectories if t.task_id == "silva-small/sum"]
    assert len(sums) == 3 == len({t.id for t in sums}) == len({t.index for t in sums})
    (tree,) = {t.tree_id for t in sums}
    assert len(Tree(node for node in bundle.nodes if node.tree_id == tree).roots) == 2  # with and without the tool


def test_tokens_masks_and_logprobs_stand_on_their_nodes_and_branches_stay() -> None:
    *_, bundle = verifiers.read(lines(TRACES))
    tree = Tree(bundle.nodes)
    assert len(tree.leaves) == 2 and len(tree.branches) == 1
    first = next(node for node in bundle.nodes if node.message.text == "Is it 4?")
    assert first.tokens == Tokens(ids=(3, 31, 32, 2), sampled=3, logprobs=(-0.5, -0.25, -0.125))
    assert first.message.parts == (ThinkingPart(text="Let me see."), TextPart(text="Is it 4?"))
    main = token_walk(bundle.walk(bundle.trajectories[0]))
    assert main.ids == (1, 11, 12, 2, 1, 21, 22, 2, 3, 33, 34, 2)
    assert main.logprobs[-3:] == (-0.75, -0.5, -0.25) and not any(main.sampled[:-3])


def test_real_traces_go_out_as_they_came() -> None:
    (bundle,) = merged(verifiers.read(lines(TRACES)))
    for written, original in zip(map(json.loads, verifiers.write([bundle])), rows(TRACES), strict=True):
        trace, before = written["traces"][0], original["traces"][0]
        trace["info"].pop("silva")
        # A prompt's words are kept once, so rollouts share its first time stamp; what says nothing is left out.
        for node in (*trace["nodes"], *before["nodes"]):
            node.pop("timestamp")
            for key in ("token_ids", "mask", "logprobs", "is_content", "semantic_parents"):
                node.pop(key) if node.get(key) == [] else None
            if node["message"].get("content") is None:
                node["message"].pop("content", None)
        by_words = [json.dumps(node["message"], sort_keys=True) for node in trace["nodes"]]
        assert sorted(by_words) == sorted(json.dumps(node["message"], sort_keys=True) for node in before["nodes"])
        for key in before.keys() - {"nodes", "calls"}:
            assert trace[key] == before[key]
        assert {key: written[key] for key in original if key != "traces"} == {
            key: original[key] for key in original if key != "traces"
        }
    assert contents(again(verifiers, [bundle])) == contents(bundle)


def test_traces_of_one_episode_stay_together() -> None:
    row = rows(TRACES)[0]
    row["traces"].append({**row["traces"][0], "id": "second", "rewards": {"right": {"score": 0.0}}})
    (bundle,) = merged(read_row(row))
    assert [t.reward for t in bundle.trajectories] == [1.0, 0.0]
    (written,) = map(json.loads, verifiers.write([bundle]))
    assert [trace["id"] for trace in written["traces"]] == [trace["id"] for trace in row["traces"]]


def test_an_episode_that_broke_before_any_trace_is_a_failed_rollout() -> None:
    row = rows(TRACES)[0] | {"traces": [], "ok": False, "errors": [{"type": "EnvError", "message": "no agent ran"}]}
    (bundle,) = read_row(row)
    (trajectory,) = bundle.trajectories
    failure = trajectory.outcome.failure
    assert trajectory.leaf_id is None and failure is not None and failure.boundary is Boundary.ENVIRONMENT
    assert contents(again(verifiers, [bundle])) == contents(bundle)


def test_sampled_ids_in_the_middle_are_context_and_kept() -> None:
    row = rows(TRACES)[4]
    node = row["traces"][0]["nodes"][2]
    node["mask"] = [False, True, True, False]
    node["logprobs"] = [-0.5, -0.25]
    (bundle,) = read_row(row)
    read = next(n for n in bundle.nodes if n.message.text == "Is it 4?")
    assert read.tokens == Tokens(ids=(3, 31, 32, 2))
    assert read.attributes["verifiers"]["mask"] == [False, True, True, False]


RESULT: dict[str, Any] = {
    "example_id": 3,
    "task": "sums",
    "prompt": [{"role": "user", "content": "1 + 2?"}],
    "completion": [
        {"role": "assistant", "content": "", "tool_calls": ['{"id": "c", "name": "add", "arguments": "{}"}']},
        {"role": "tool", "tool_call_id": "c", "content": "3"},
        {"role": "assistant", "content": "3"},
    ],
    "answer": "3",
    "reward": 0.5,
    "metrics": {"right": 1.0},
    "is_truncated": True,
    "token_usage": {"input_tokens": 12.0, "output_tokens": 5.0},
    "tool_defs": [{"name": "add", "description": "Add.", "parameters": {}}],
    "trajectory": [
        {
            "tokens": {
                "prompt_ids": [1, 2],
                "completion_ids": [3],
                "completion_mask": [1],
                "completion_logprobs": [-1.0],
            }
        },
        {
            "tokens": {
                "prompt_ids": [1, 2, 3, 4],
                "completion_ids": [5, 6],
                "completion_mask": [1, 0],
                "completion_logprobs": [-1.0, -2.0],
            },
            "reward": 0.25,
        },
    ],
}


def test_result_rows_of_older_versions_are_read_with_their_tokens() -> None:
    (bundle,) = read_row(RESULT)
    (trajectory,) = bundle.trajectories
    walk = bundle.walk(trajectory)
    assert (trajectory.task_id, trajectory.reward, trajectory.outcome.status) == ("sums/3", 0.5, Status.TRUNCATED)
    assert walk[1].tokens == Tokens(ids=(1, 2, 3), sampled=1, logprobs=(-1.0,))
    assert walk[3].tokens == Tokens(ids=(4, 5, 6), sampled=2, logprobs=(-1.0, -2.0)) and walk[3].reward == 0.25
    assert walk[1].message.tool_calls[0].name == "add" and trajectory.usage.prompt_tokens == 12
    (mask,) = bundle.supervisions
    assert mask.node_id == walk[3].id and mask.verdict == "mask"
    assert contents(again(verifiers, [bundle])) == contents(bundle)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (("nodes", 1, "parent", 7), "traces[0].nodes[1].parent"),
        (("nodes", 0, "token_ids", [1]), "traces[0].nodes[0].mask"),
        (("nodes", 2, "message", {"role": "robot"}), "traces[0].nodes[2].message.role"),
        (("calls", 0, "usage", "many"), "traces[0].calls[0].usage"),
    ],
)
def test_a_fault_is_named_by_line_and_field(change: tuple[Any, ...], field: str) -> None:
    row = rows(TRACES)[0]
    kind, place, key, value = change
    row["traces"][0][kind][place][key] = value
    with pytest.raises(FormatError) as caught:
        list(verifiers.read([b"\n", json.dumps(row)], "traces.jsonl"))
    assert (caught.value.line, caught.value.field) == (2, field)


@given(row=st.sampled_from([*rows(TRACES)[::2], RESULT]).flatmap(spoilt))
def test_a_spoilt_row_is_read_or_refused_by_name(row: Any) -> None:
    try:
        (bundle,) = merged(read_row(row))
    except FormatError as error:
        assert error.line == 1
    else:
        assert contents(again(verifiers, [bundle])) == contents(bundle)


def test_the_golden_file_written_by_an_earlier_silva_still_opens() -> None:
    read = merged(verifiers.read(lines("silva-verifiers.jsonl")))
    wanted = merged(golden_writer().bundles())
    assert [contents(bundle) for bundle in read] == [contents(bundle) for bundle in wanted]


def test_traces_and_result_rows_are_recognised() -> None:
    for row in (*rows(TRACES), rows(TRACES)[0]["traces"][0], RESULT):
        assert verifiers.recognise(json.dumps(row).encode()[:4096], row)
    assert not verifiers.recognise(b"", {"messages": []}) and not verifiers.recognise(b"PK", None)
