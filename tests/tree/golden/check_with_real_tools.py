"""Check that the real tools read what Silva wrote (frameworks/silva-*), each in an interpreter that has the tool.

python tests/tree/golden/check_with_real_tools.py inspect      needs inspect-ai
python tests/tree/golden/check_with_real_tools.py verifiers    needs verifiers
python tests/tree/golden/check_with_real_tools.py openenv      needs openenv and openai
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent / "frameworks"


def check_inspect() -> None:
    """The log opens with its samples, events and attachments, is listed, and survives Inspect's own writer."""
    from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_sample_summaries, write_eval_log

    path = FOLDER / "silva-inspect.eval"
    assert any(info.name.endswith(path.name) for info in list_eval_logs(str(FOLDER)))
    log = read_eval_log(str(path), resolve_attachments=True)
    assert log.status == "success" and log.results is not None and log.samples is not None
    assert len(log.samples) == 5 == len(read_eval_log_sample_summaries(str(path)))
    dot = next(sample for sample in log.samples if sample.id == "shapes/dot" and sample.epoch == 1)
    assert [message.role for message in dot.messages] == ["user", "assistant", "tool", "assistant"]
    assert dot.messages[0].content[-1].image.startswith("data:image/png;base64,")
    assert dot.messages[1].tool_calls[0].function == "look" and dot.messages[2].text == "a dot"
    assert dot.scores["score"].value == 1.0 and dot.scores["success"].value == "C"
    assert [event.event for event in dot.events] == ["sample_init", "model", "tool", "model", "score", "score"]
    models = [event for event in dot.events if event.event == "model"]
    assert [len(event.input) for event in models] == [1, 3] and models[1].output.completion == "A dot."
    assert models[1].output.usage.output_tokens == 3 and dot.model_usage["local"].output_tokens == 7
    broken = next(sample for sample in log.samples if sample.error is not None)
    assert "host.died" in broken.error.message and broken.events[-1].event == "error"
    with tempfile.TemporaryDirectory() as scratch:
        again = Path(scratch) / "again.eval"
        write_eval_log(read_eval_log(str(path)), str(again))
        (again.parent / "marker").write_text("")
        kept = {sample.uuid: sample.metadata["silva"] for sample in read_eval_log(str(again)).samples or []}
        assert kept == {sample.uuid: sample.metadata["silva"] for sample in log.samples}


def check_verifiers() -> None:
    """Every line is an episode; its branches, tokens, tools and rewards are what was grown."""
    from verifiers.v1.episode import WireEpisode
    from verifiers.v1.trace import WireTrace
    from verifiers.v1.utils.trace_store import TRACES_FILE, read_episodes

    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / TRACES_FILE).write_bytes((FOLDER / "silva-verifiers.jsonl").read_bytes())
        episodes = read_episodes(Path(scratch), WireTrace)
    lines = (FOLDER / "silva-verifiers.jsonl").read_text().splitlines()
    assert [episode.id for episode in episodes] == [WireEpisode.model_validate_json(line).id for line in lines]
    golden = [trace for episode in episodes for trace in episode.traces]
    assert len(golden) == 5
    exact = [trace for trace in golden if trace.branches and trace.num_turns == 3]
    assert len(exact) == 2 and all(trace.reward in (0.0, 1.0) and trace.ok for trace in exact)
    retry, main = exact[0].branches
    assert retry.token_ids == [1, 2, 3, 4, 5, 6, 7, 8, 9] and main.token_ids == [1, 2, 3, 4, 5, 6, 7, 10, 11, 9]
    assert main.sampled_mask == [False] * 3 + [True] * 2 + [False] * 2 + [True] * 3
    assert main.logprobs == [0.0] * 3 + [-0.5] * 2 + [0.0] * 2 + [-0.5] * 3
    assert main.messages[1].tool_calls[0].name == "look" and main.messages[2].content == "a dot"
    assert exact[0].usage.completion_tokens == 7
    failed = next(trace for trace in golden if trace.has_error)
    assert failed.errors[-1].type == "SandboxError" and "host.died" in failed.errors[-1].message


def check_openenv() -> None:
    """Every line passes OpenEnv's own checks as a training trace or a collected episode."""
    from openenv.core.harness.collect import EpisodeRecord, RolloutSerializer
    from openenv.core.harness.training import TrainingTrace

    lines = (FOLDER / "silva-openenv.jsonl").read_text().splitlines()
    traces = [TrainingTrace.model_validate_json(line) for line in lines if "turns" in json.loads(line)]
    episodes = [json.loads(line) for line in lines if "episode_id" in json.loads(line)]
    assert len(traces) == 3 and len(episodes) == len(lines) - 3
    assert all(EpisodeRecord(**row).to_dict() == row for row in episodes)
    turns = traces[1].turns
    assert [turn.prompt_token_ids for turn in turns] == [[1, 2, 3], [1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 7]]
    assert turns[2].completion_token_ids == [10, 11, 9] and turns[2].per_token_logps == [-0.5] * 3
    assert turns[2].loss_mask == [0] * 7 + [1] * 3 and turns[2].metadata["reward"] == 1.0
    assert [message["role"] for message in turns[2].request["messages"]] == ["user", "assistant", "tool"]
    assert len(traces[1].to_trace_entries()) == 3
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in episodes))
        assert len(RolloutSerializer(scratch).collected_episode_ids()) == len(episodes)


if __name__ == "__main__":
    {"inspect": check_inspect, "verifiers": check_verifiers, "openenv": check_openenv}[sys.argv[1]]()
    print(f"{sys.argv[1]}: reads what Silva wrote")
