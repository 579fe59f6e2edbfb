"""Check that the real tools read what Silva wrote (silva-* in frameworks/), each in an interpreter that has the tool.

python tests/tree/golden/check_with_real_tools.py inspect      needs inspect-ai
python tests/tree/golden/check_with_real_tools.py verifiers    needs verifiers
python tests/tree/golden/check_with_real_tools.py openenv      needs openenv and openai
python tests/tree/golden/check_with_real_tools.py sharegpt     needs llamafactory, datasets, peft and transformers

Folders named after the tool are looked at instead of frameworks/ (tools/ for sharegpt). The slow tests call this:
../test_golden_tools.py.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace

HERE = Path(__file__).parent


def check_inspect(folder: Path) -> None:
    """The log opens with its samples, events and attachments, is listed, and survives Inspect's own writer."""
    from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_sample_summaries, write_eval_log

    path = folder / "silva-inspect.eval"
    assert any(info.name.endswith(path.name) for info in list_eval_logs(str(folder)))
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


def check_verifiers(folder: Path) -> None:
    """Every line is an episode; its branches, tokens, tools and rewards are what was grown."""
    from verifiers.v1.episode import WireEpisode
    from verifiers.v1.trace import WireTrace
    from verifiers.v1.utils.trace_store import TRACES_FILE, read_episodes

    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / TRACES_FILE).write_bytes((folder / "silva-verifiers.jsonl").read_bytes())
        episodes = read_episodes(Path(scratch), WireTrace)
    lines = (folder / "silva-verifiers.jsonl").read_text().splitlines()
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


def check_openenv(folder: Path) -> None:
    """Every line passes OpenEnv's own checks as a training trace or a collected episode."""
    from openenv.core.harness.collect import EpisodeRecord, RolloutSerializer
    from openenv.core.harness.training import TrainingTrace

    lines = (folder / "silva-openenv.jsonl").read_text().splitlines()
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


def check_sharegpt(folder: Path) -> None:
    """LLaMA-Factory's own reader takes every row: its speakers, calls, tools, system words and pairs."""
    spec = importlib.util.find_spec("llamafactory")
    assert spec is not None and spec.origin is not None
    # Opening that package opens its collators too, which want torchaudio; the readers do not.
    readers = ModuleType("llamafactory.data")
    readers.__path__ = [str(Path(spec.origin).parent / "data")]
    sys.modules[readers.__name__] = readers
    from llamafactory.data.converter import SharegptDatasetConverter
    from llamafactory.data.formatter import FunctionFormatter, ToolFormatter

    tags = {"user": "human", "assistant": "gpt", "observation": "observation", "function": "function_call"}
    names = {
        f"{name}_tag": tag for name, tag in {**tags, "system": "system", "role": "from", "content": "value"}.items()
    }

    def taken(row: dict[str, object]) -> dict[str, object]:
        columns = {name: name if name in row else None for name in ("system", "tools", "images", "videos", "audios")}
        how = {"load_from": "memory", "messages": "conversations", "kto_tag": None, "ranking": "chosen" in row}
        asked = SimpleNamespace(**names, **columns, **how, chosen="chosen", rejected="rejected")
        return SharegptDatasetConverter(asked, SimpleNamespace(media_dir=""))(row)

    rows = [json.loads(line) for line in (folder / "sharegpt.jsonl").read_text().splitlines()]
    weather, hello, *pairs = (taken(row) for row in rows)
    assert [turn["role"] for turn in weather["_prompt"]] == ["user", "function", "observation"]
    assert weather["_response"][0]["content"] == "<think>\nshort answer\n</think>\n\nIt is sunny in Paris."
    assert weather["_system"] == hello["_system"] == "Be brief."
    (called,) = FunctionFormatter(slots=["{{content}}"], tool_format="qwen").apply(
        content=weather["_prompt"][1]["content"]
    )
    assert json.loads(called.split("\n")[1]) == {"name": "get_weather", "arguments": {"city": "Paris"}}
    (offered,) = ToolFormatter(tool_format="qwen").apply(content=weather["_tools"])
    assert '"description": "Weather of a city."' in offered
    assert hello["_prompt"] + hello["_response"] == [
        {"role": "user", "content": "Say hello."},
        {"role": "assistant", "content": "Hello!"},
    ]
    said = [turn["content"] for pair in pairs for turn in pair["_response"]]
    assert said == ["9.9.", "9.11."] and len(pairs) == 1, "a pair in one row"


if __name__ == "__main__":
    tool, *folders = sys.argv[1:]
    checks = {
        "inspect": check_inspect,
        "verifiers": check_verifiers,
        "openenv": check_openenv,
        "sharegpt": check_sharegpt,
    }
    for chosen in map(Path, folders or [HERE / ("tools" if tool == "sharegpt" else "frameworks")]):
        checks[tool](chosen)
    print(f"{tool}: reads what Silva wrote")
