"""Make verifiers.jsonl with the real verifiers: two tasks, two rollouts each, a tool, an error, a scripted model.

    silva models serve --scripted tests/tree/golden/make_verifiers.yaml --port 8123
    python tests/tree/golden/make_verifiers.py FOLDER http://127.0.0.1:8123/v1      (needs verifiers)

It writes FOLDER/verifiers.jsonl. The model calls go through verifiers' own interception server, as its contract wants.
The endpoint gives no token ids there, so a last row is built by its own message graph from tokens that are made up here
(`tokens`). Addresses and paths are cut out.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import ClassVar

import httpx

sys.modules["silva_small"] = sys.modules["__main__"]

import verifiers.v1 as vf  # noqa: E402
from verifiers.v1.cli.eval.runner import run_eval  # noqa: E402
from verifiers.v1.configs.cli.eval import EvalConfig  # noqa: E402
from verifiers.v1.episode import WireEpisode  # noqa: E402
from verifiers.v1.graph import prepare_turn  # noqa: E402
from verifiers.v1.runtimes import ProgramResult  # noqa: E402
from verifiers.v1.trace import ModelCall  # noqa: E402
from verifiers.v1.types import (  # noqa: E402
    AssistantMessage,
    Response,
    SystemMessage,
    TurnTokens,
    Usage,
    UserMessage,
)
from verifiers.v1.utils.trace_store import write_episode  # noqa: E402

__all__ = ["SmallHarness", "SmallTaskset"]
TOOL = {
    "name": "add",
    "description": "Add two numbers.",
    "parameters": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}},
}


class SmallData(vf.TaskData):
    """The answer to look for."""

    answer: str = ""


class SmallTask(vf.Task[SmallData]):
    """Full marks when the answer stands in the last reply."""

    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        """1 when the answer stands in the reply."""
        return float(self.data.answer in str(trace.branches[-1].messages[-1].content))

    @vf.metric
    async def turns(self, trace: vf.Trace) -> float:
        """How often the model spoke."""
        return float(trace.num_turns)


class SmallConfig(vf.TasksetConfig):
    """Nothing to set."""


class SmallTaskset(vf.Taskset[SmallTask, SmallConfig]):
    """A sum that is solved, and a question at which the harness breaks."""

    def load(self) -> list[SmallTask]:
        """Both of them."""
        rows = [("sum", "What is 1 + 2?", "3"), ("broken", "Please fail.", "never")]
        return [
            SmallTask(SmallData(id=name, prompt=ask, system_prompt="Answer briefly.", answer=answer), self.config.task)
            for name, ask, answer in rows
        ]


class SmallHarnessConfig(vf.HarnessConfig):
    """Nothing to set."""


class SmallHarness(vf.Harness[SmallHarnessConfig]):
    """Ask, add what the model wants added, ask again; in process."""

    APPENDS_SYSTEM_PROMPT: ClassVar[bool] = True
    EXECUTES_CODE: ClassVar[bool] = False
    NEEDS_CONTAINER: ClassVar[bool] = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        """The loop of one rollout."""
        messages = [{"role": "system", "content": data.system_prompt}, {"role": "user", "content": data.prompt}]
        async with httpx.AsyncClient(timeout=60) as client:
            for _ in range(4):
                answer = await client.post(
                    f"{endpoint.rstrip('/')}/chat/completions",
                    json={"model": ctx.model, "messages": messages, "tools": [{"type": "function", "function": TOOL}]},
                    headers={"Authorization": f"Bearer {secret}"},
                )
                answer.raise_for_status()
                said = answer.json()["choices"][0]["message"]
                messages.append(said)
                for call in said.get("tool_calls") or []:
                    numbers = json.loads(call["function"]["arguments"])
                    total = str(numbers["x"] + numbers["y"])
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": total})
                if not said.get("tool_calls"):
                    break
        if "fail" in data.prompt:
            raise RuntimeError("the harness broke")
        return ProgramResult(exit_code=0, stdout="", stderr="")


def tokens(episode: WireEpisode) -> WireEpisode:
    """The first episode as a training client commits it: the same words with token ids, and a retry that branches."""
    trace = episode.traces[0]
    trace.nodes, trace.calls, episode.id, trace.id = [], [], "e" * 32, "a" * 32
    system, user = SystemMessage(content="Answer briefly."), UserMessage(content="What is 1 + 2?")

    def commit(prompt, said, ids, spans, sampled, logprobs):
        given = TurnTokens(prompt_ids=ids, completion_ids=sampled, completion_logprobs=logprobs, message_spans=spans)
        message = AssistantMessage(content=said, reasoning_content="Let me see.")
        usage = Usage(prompt_tokens=len(ids), completion_tokens=len(sampled))
        answer = Response(
            id="r", created=0, model="m", message=message, finish_reason="stop", usage=usage, tokens=given
        )
        node = prepare_turn(trace, prompt).commit(answer)
        trace.calls.append(ModelCall(node=node, model="m", finish_reason="stop", usage=usage))
        return message

    spans = [(1, 4), (5, 8)]
    said = commit(
        [system, user], "Is it 4?", [1, 11, 12, 2, 1, 21, 22, 2, 3], spans, [31, 32, 2], [-0.5, -0.25, -0.125]
    )
    more = [1, 11, 12, 2, 1, 21, 22, 2, 3, 31, 32, 2, 1, 41, 2, 3]
    commit([system, user, said, UserMessage(content="No.")], "3", more, [*spans, None, (13, 15)], [33, 2], [-1.0, -2.0])
    commit([system, user], "3!", [1, 11, 12, 2, 1, 21, 22, 2, 3], spans, [33, 34, 2], [-0.75, -0.5, -0.25])
    return episode


def main(folder: Path, url: str) -> None:
    """Run the evaluation and leave its traces, addresses and paths cut out, in `folder`."""
    config = EvalConfig.model_validate(
        {
            "env": {
                "taskset": {"id": "silva-small"},
                "agent": {"harness": {"id": "silva-small"}, "runtime": {"type": "subprocess"}},
            },
            "model": "scripted",
            "client": {"type": "eval", "base_url": url, "api_key_var": "OPENAI_API_KEY"},
            "num_rollouts": 2,
            "max_concurrent": 1,
            "rich": None,
            "push": False,
            "output_dir": str(folder / "run"),
        }
    )
    asyncio.run(run_eval(config))
    (made,) = folder.glob("run/**/traces.jsonl")
    rows = [json.loads(line) for line in made.read_text().splitlines()]
    write_episode(folder, tokens(WireEpisode.model_validate(rows[0])))
    last = folder / "traces.jsonl"
    rows.append(json.loads(last.read_text()))
    last.unlink()
    for row in rows:
        for trace in row["traces"]:
            trace["agent"]["runtime"]["id"] = "runtime"
            trace["agent"]["config"]["client"]["base_url"] = "http://model/v1"
            for error in trace["errors"]:
                error["traceback"] = "(cut out)"
    (folder / "verifiers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
