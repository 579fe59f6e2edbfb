"""Agents that are programs: started unmodified, captured, judged, ended, played again."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from silva.errors import UnreachableError, UsageError
from silva.lake import Lake
from silva.models.gateway import conversations
from silva.rollout import RolloutConfig, run_rollout
from silva.sandbox.system import probe
from silva.tree import Tree

# The loop every vendor's guide shows, with nothing of Silva in it.
AGENT = """
import json, os, subprocess, sys, urllib.request

def ask(messages):
    body = {"model": "any", "messages": messages, "tools": [{"type": "function", "function": {
        "name": "shell", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}}]}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
        {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]

messages = [{"role": "user", "content": sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read()}]
while True:
    reply = ask(messages)
    messages.append(reply)
    for call in reply.get("tool_calls") or []:
        command = json.loads(call["function"]["arguments"])["command"]
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout + done.stderr})
    if not reply.get("tool_calls"):
        print(reply["content"])
        break
"""

SUM = {"tool_calls": [{"name": "shell", "arguments": {"command": "awk '{s+=$1} END {print s}' numbers.txt > sum.txt"}}]}
SCRIPT: dict[str, Any] = {
    "rules": [{"when": {"last": "one whole number a line"}, "reply": SUM}],
    "otherwise": {"text": "Done."},
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "script.json").write_bytes(msgspec.json.encode(SCRIPT))
    return tmp_path


def config(files: Path, command: str, **more: Any) -> RolloutConfig:
    given: dict[str, Any] = {
        "run": "p",
        "env": ("workspace",),
        "model": f"scripted:{files / 'script.json'}",
        "agent": f"program: {command}",
        "lake": str(files / "lake"),
        "tasks": {"ids": ("workspace/sum",)},
        "program": {"mounts": [str(files)]},
    }
    return RolloutConfig.model_validate({**given, **more})


def written(places: list[str]) -> list[str]:
    """Where an attack left its mark."""
    return [place for place in places if Path(place, "escaped").exists()]


def running() -> str:
    """The command lines of all processes."""
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


async def test_a_program_is_captured_scored_and_confined(files: Path) -> None:
    result = await run_rollout(config(files, f"{sys.executable} {files / 'agent.py'} {{prompt}}"))
    (trajectory,) = result.trajectories
    assert trajectory.outcome.success, trajectory
    assert (trajectory.turns, trajectory.attributes["exit"]) == (2, 0)
    assert trajectory.attributes["sandbox"] == "namespaces"
    assert trajectory.attributes["output"].strip() == "Done."
    with Lake.open(files / "lake", mode="read") as lake:
        walk = lake.walk(trajectory)
    assert [node.message.role for node in walk] == ["user", "assistant", "tool", "assistant"]
    assert "numbers.txt" in walk[0].message.text
    assert all(node.tokens for node in walk if node.message.role == "assistant")


async def test_the_answer_of_a_program_is_the_action_in_an_environment_that_speaks(files: Path) -> None:
    program = files / "answer.sh"
    program.write_text('#!/bin/sh\ncat > question; echo thinking aloud; echo 7 > "$SILVA_ANSWER"\n')
    result = await run_rollout(config(files, f"sh {program}", env=("arithmetic",), tasks={"limit": 2, "split": "test"}))
    assert [t.outcome.status.value for t in result.trajectories] == ["completed"] * 2
    assert [t.turns for t in result.trajectories] == [0, 0]


async def test_groups_share_their_prompt_and_keep_their_turns_apart(files: Path) -> None:
    result = await run_rollout(config(files, f"{sys.executable} {files / 'agent.py'} {{prompt}}", group=3))
    assert [t.outcome.success for t in result.trajectories] == [True] * 3
    with Lake.open(files / "lake", mode="read") as lake:
        tree = lake.tree(result.trajectories[0].tree_id)
    assert isinstance(tree, Tree) and len(tree.roots) == 1
    assert len(tree.leaves) == 3 and len(tree) == 1 + 3 * 3


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        ("echo 'no such flag' >&2; exit 3", "agent.exit", "no such flag"),
        ("sleep 60", "budget.episode_time", "longer than"),
        ("kill -9 $$", "agent.exit", "ended with code"),
    ],
)
async def test_a_program_that_breaks_or_hangs_is_a_failure_and_leaves_nothing_running(
    files: Path, program: str, code: str, said: str
) -> None:
    script = files / "broken.sh"
    mark = f"sleep 61.{os.getpid()}"
    script.write_text(f"{mark} &\n{program}\n")
    result = await run_rollout(config(files, f"sh {script}", deadlines={"episode": 4}))
    failure = result.trajectories[0].outcome.failure
    assert failure is not None and failure.code == code and said in failure.message
    assert mark not in running()


async def test_a_model_that_fails_is_the_models_fault_not_the_programs(files: Path) -> None:
    (files / "script.json").write_bytes(
        msgspec.json.encode({"faults": [{"kind": "status", "status": 500, "every": 1}]})
    )
    with pytest.raises(UnreachableError, match=r"the model failed every time .*HTTP 500"):
        await run_rollout(config(files, f"{sys.executable} {files / 'agent.py'}", deadlines={"model": 3}))
    with Lake.open(files / "lake", mode="read") as lake:
        failure = lake.trajectories(run_id="p")[0].outcome.failure
    assert failure is not None and failure.boundary == "model", failure


async def test_turns_of_a_program_are_bounded(files: Path) -> None:
    result = await run_rollout(config(files, f"{sys.executable} {files / 'agent.py'}", budget={"turns": 1}))
    failure = result.trajectories[0].outcome.failure
    assert failure is not None and failure.boundary == "budget"
    assert result.trajectories[0].turns == 1


@pytest.mark.parametrize(("most", "turns"), [(None, 2), (1, 1)])
async def test_what_was_let_go_of_while_programs_computed_counts_all_the_same(
    files: Path, monkeypatch: pytest.MonkeyPatch, most: int | None, turns: int
) -> None:
    monkeypatch.setattr(conversations, "MOST_SESSIONS", 1)  # each call makes the others' sessions go
    budget = {} if most is None else {"turns": most}
    result = await run_rollout(
        config(files, f"{sys.executable} {files / 'agent.py'} {{prompt}}", group=3, budget=budget)
    )
    assert [t.turns for t in result.trajectories] == [turns] * 3
    assert [bool(t.outcome.success) for t in result.trajectories] == [most is None] * 3
    with Lake.open(files / "lake", mode="read") as lake:
        walks = [lake.walk(trajectory) for trajectory in result.trajectories]
    assert [len(walk) for walk in walks] == [2 * turns] * 3


async def test_a_program_sees_the_variables_it_was_given_and_no_others(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_MINE", "hidden")
    monkeypatch.setenv("PASSED_ON", "yes")
    given = {"mounts": [str(files)], "variables": {"SET": "here"}, "pass_variables": ["PASSED_ON"]}
    result = await run_rollout(config(files, "env", env=("arithmetic",), tasks={"limit": 1}, program=given))
    output = result.trajectories[0].attributes["output"]
    assert "SET=here" in output and "PASSED_ON=yes" in output and "OPENAI_BASE_URL=http://127.0.0.1" in output
    assert "hidden" not in output
    assert "sk-silva.p." not in output, "the run's token is not written down"


ATTACKS = """
for place in {files} /usr/local /etc /opt / /proc/sys/kernel; do
    touch $place/escaped 2>/dev/null && echo BAD wrote $place
done
for place in /usr /etc / /proc; do mount -o remount,rw,bind $place 2>/dev/null && echo BAD mounted $place; done
head -1 /etc/shadow 2>/dev/null && echo BAD shadow
ls -A /home /var /run 2>/dev/null | grep -v -e agent -e : -e tmp -e "^$" && echo BAD homes
cat /root/.bashrc /root/.profile 2>/dev/null && echo BAD home
unshare -Ur true 2>/dev/null && echo BAD namespace
mknod d b 8 0 2>/dev/null && echo BAD device
grep -E '^(CapEff|CapPrm|CapInh|CapAmb)' /proc/self/status | grep -v 0000000000000000 && echo BAD capabilities
grep -q 'Seccomp:.2' /proc/self/status || echo BAD seccomp
[ "$(id -u)" = 0 ] && echo BAD root
python3 - {port} <<'P'
import os, socket, sys
from urllib.parse import urlsplit
door = urlsplit(os.environ["OPENAI_BASE_URL"]).port
socket.create_connection(("127.0.0.1", door), 5).close()
for place in (("127.0.0.1", int(sys.argv[1])), ("127.0.0.1", 22), ("1.1.1.1", 53), ("169.254.169.254", 80)):
    try: socket.create_connection(place, 2); print("BAD reached", place)
    except OSError: pass
P
touch mine && echo wrote
"""


@pytest.mark.skipif(bool(probe().problem), reason="needs bubblewrap (Debian: apt-get install bubblewrap)")
async def test_a_program_has_no_rights_and_reaches_its_folder_and_its_model_alone(files: Path) -> None:
    (files / "private").mkdir(mode=0o700)
    (files / "private" / "read.txt").write_text("lent\n")
    with socket.create_server(("127.0.0.1", 0)) as other:
        attacks = ATTACKS.replace("{files}", str(files)).replace("{port}", str(other.getsockname()[1]))
        (files / "attack.sh").write_text(f"{attacks}\ncat {files}/private/read.txt\n")
        result = await run_rollout(config(files, f"sh {files / 'attack.sh'}"))
    output = result.trajectories[0].attributes["output"]
    assert output == "wrote\nlent\n", result.trajectories[0]
    assert written([str(files), "/etc", "/usr/local", "/opt", "/"]) == []


@pytest.mark.skipif(bool(probe().problem), reason="needs bubblewrap (Debian: apt-get install bubblewrap)")
async def test_a_program_has_this_machines_network_where_that_is_asked_for_by_name(files: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        asks = f'python3 -c \'import socket; socket.create_connection(("127.0.0.1", {port}), 5); print("reached")\''
        (files / "asks.sh").write_text(asks)
        given = {"mounts": [str(files)], "network": "host"}
        result = await run_rollout(config(files, f"sh {files / 'asks.sh'}", program=given))
    assert result.trajectories[0].attributes["output"] == "reached\n"


async def test_a_program_that_is_not_there_is_told_in_one_line(files: Path) -> None:
    with pytest.raises(UsageError, match="no program 'nonesuch'"):
        await run_rollout(config(files, "nonesuch --flag"))


def test_a_trajectory_of_a_program_is_played_again_and_a_changed_program_is_found_out(files: Path) -> None:
    silva = [sys.executable, "-m", "silva"]
    lake = ["--lake", str(files / "lake")]
    agent = f"program: {sys.executable} {files / 'agent.py'} {{prompt}}"
    asked = ["--env", "workspace", "--task", "workspace/sum", "--model", f"scripted:{files / 'script.json'}"]
    mounts = f"program.mounts={json.dumps([str(files)])}"
    subprocess.run([*silva, "rollout", *asked, "--agent", agent, "--run", "p", *lake, mounts], check=True)
    listed = subprocess.run([*silva, "trees", "list", "--json", *lake], capture_output=True, text=True, check=True)
    (found,) = json.loads(listed.stdout)
    again = subprocess.run([*silva, "trees", "replay", found["id"], *lake], capture_output=True, text=True)
    assert again.returncode == 0 and "same: 2 turns, 4 messages" in again.stdout, again
    (files / "agent.py").write_text(AGENT.replace("done.stdout + done.stderr", "'(cut)'"))
    other = subprocess.run([*silva, "trees", "replay", found["id"], *lake], capture_output=True, text=True)
    assert other.returncode == 1 and "diverged at turn 1, message 2" in other.stdout, other
