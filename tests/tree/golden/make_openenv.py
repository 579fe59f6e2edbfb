"""Make openenv.jsonl with the real OpenEnv: its capture graph's training trace and entries, and a collected episode.

    python tests/tree/golden/make_openenv.py FOLDER      (needs openenv and openai; writes FOLDER/openenv.jsonl)

OpenEnv writes a training trace only from the calls of an inference engine that gives token ids. The ids here are made
up; the graph, the parents it finds, the masks, the checks and the records are OpenEnv's own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from openenv.core.harness.capture.contract import to_trace_entries, to_training_trace
from openenv.core.harness.capture.export import export_session
from openenv.core.harness.capture.graph import TurnNode
from openenv.core.harness.capture.sessions import SessionRegistry
from openenv.core.harness.collect import EpisodeRecord, RolloutSerializer
from openenv.core.harness.rollout import HarnessRolloutResult, ToolResult, ToolTraceEntry, VerifyResult

TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}},
    },
}
ASKED = [{"role": "system", "content": "Answer briefly."}, {"role": "user", "content": "What is 1 + 2?"}]
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"x": 1, "y": 2}'}}],
}
# A harness sends the call back with other spaces.
ECHO = {**CALL, "tool_calls": [{**CALL["tool_calls"][0], "function": {"name": "add", "arguments": '{"x":1,"y":2}'}}]}
GIVEN = {"role": "tool", "tool_call_id": "c1", "content": "3"}
SAID = {"role": "assistant", "content": "The answer is 3.", "reasoning_content": "One and two make three."}


def main(folder: Path) -> None:
    """Write one line of each kind."""
    folder.mkdir(parents=True, exist_ok=True)
    session = SessionRegistry().create(session_id="small", metadata={"task_id": "sum"})

    def called(name: str, messages: list, said: dict, prompt: list, sampled: list, why: str) -> None:
        node = TurnNode(
            node_id=name,
            prompt_ids=prompt,
            sampled_ids=sampled,
            sampled_logprobs=[-0.25 * (place + 1) for place in range(len(sampled))],
            model="m",
            finish_reason=why,
            n_tools=1,
            request_messages=messages,
            request_tools=[TOOL],
            sampling_params={"temperature": 1.0},
            response_message=said,
        )
        session.graph.add_turn(node)

    called("n0", ASKED, CALL, [1, 11, 2, 1, 21, 2, 3], [31, 32, 2], "tool_calls")
    called("n1", [*ASKED, ECHO, GIVEN], SAID, [1, 11, 2, 1, 21, 2, 3, 31, 32, 2, 1, 41, 2, 3], [33, 34, 2], "stop")
    document = export_session(session, include_messages=True)
    trace = to_training_trace(session.graph, document)
    rollout = HarnessRolloutResult(
        messages=[*ASKED, CALL, GIVEN, SAID],
        tool_trace=[ToolTraceEntry(tool_name="add", arguments={"x": 1, "y": 2}, result=ToolResult(data="3"))],
        done=True,
        metrics={"turns": 2},
    )
    verify = VerifyResult(env_reward=1.0, done=True, metrics={"right": 1.0})
    record = EpisodeRecord.from_rollout("episode-1", rollout, verify, task={"id": "sum", "prompt": "What is 1 + 2?"})
    serializer = RolloutSerializer(folder)
    serializer.write_episode(record)
    lines = [
        trace.model_dump_json(),
        json.dumps(to_trace_entries(session.graph, document)),
        serializer.results_path.read_text().strip(),
    ]
    serializer.results_path.unlink()
    (folder / "openenv.jsonl").write_text("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
