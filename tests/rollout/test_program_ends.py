"""How programs begin and end: what they leave running, what cannot be started, what they put where their answer is
looked for, and the bounds they are held to."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from silva.rollout import RolloutConfig, run_rollout
from silva.sandbox.system import probe
from silva.tree import Boundary, Trajectory

BREAKING = Path(__file__).with_name("breaking.py")
SCRIPT: dict[str, Any] = {"otherwise": {"text": "Done."}}

levels = pytest.mark.parametrize(
    "sandbox",
    [
        pytest.param("namespaces", marks=pytest.mark.skipif(bool(probe().problem), reason="no sandboxes here")),
        "process",
    ],
)


def config(folder: Path, command: str, sandbox: str = "process", **more: Any) -> RolloutConfig:
    (folder / "script.json").write_bytes(msgspec.json.encode(SCRIPT))
    given: dict[str, Any] = {
        "run": "p",
        "env": ("workspace",),
        "model": f"scripted:{folder / 'script.json'}",
        "agent": f"program: {command}",
        "lake": str(folder / "lake"),
        "tasks": {"ids": ("workspace/sum",)},
        "program": {"mounts": [str(folder)], "sandbox": sandbox},
    }
    return RolloutConfig.model_validate({**given, **more})


async def played(settings: RolloutConfig) -> Trajectory:
    (trajectory,) = (await run_rollout(settings)).trajectories
    return trajectory


def running(mark: str) -> bool:
    """Whether a process with that word in its command line is there."""
    listed = subprocess.run(["ps", "-eo", "stat,args"], capture_output=True, text=True, check=True).stdout
    return any(mark in line for line in listed.splitlines() if not line.startswith("Z"))


@levels
@pytest.mark.parametrize(
    "left",
    [
        "{mark} &",
        "setsid {mark} &",
        "setsid sh -c '{mark} & {mark}; true' < /dev/null > /dev/null 2>&1 & sleep 0.3",
        "( setsid sh -c '( {mark} ) &' ) & sleep 0.3",
    ],
    ids=["in the background", "in a session of its own", "with its output elsewhere", "orphaned"],
)
async def test_a_program_that_ends_takes_with_it_what_it_started(tmp_path: Path, sandbox: str, left: str) -> None:
    mark = f"sleep 3000.{time.time_ns() % 10**9}"
    script = tmp_path / "leaves.sh"
    script.write_text(left.replace("{mark}", mark) + "\necho 42 > sum.txt\necho said\nexit 0\n")
    began = time.monotonic()
    trajectory = await played(config(tmp_path, f"sh {script}", sandbox, deadlines={"episode": 60}))
    assert trajectory.outcome.success, trajectory
    assert trajectory.attributes["output"] == "said\n"
    assert time.monotonic() - began < 50
    assert not running(mark)


@levels
async def test_what_a_program_started_ends_with_it_at_the_deadline_too(tmp_path: Path, sandbox: str) -> None:
    mark = f"sleep 3000.{time.time_ns() % 10**9}"
    script = tmp_path / "hangs.sh"
    script.write_text(f"setsid {mark} &\n{mark}\n")
    trajectory = await played(config(tmp_path, f"sh {script}", sandbox, deadlines={"episode": 3}))
    failure = trajectory.outcome.failure
    assert failure is not None and failure.code == "budget.episode_time"
    assert not running(mark)


async def test_a_program_that_does_not_read_its_prompt_and_says_much_is_no_trouble(tmp_path: Path) -> None:
    script = tmp_path / "deaf.sh"
    script.write_text("sleep 3000 &\nhead -c 5000000 /dev/zero | tr '\\0' x; head -c 5000000 /dev/zero >&2; echo end\n")
    task = {"id": "long", "env": "workspace", "instruction": "x" * (1 << 20), "data": {}}
    (tmp_path / "tasks.jsonl").write_bytes(msgspec.json.encode(task))
    trajectory = await played(config(tmp_path, f"sh {script}", tasks={"file": str(tmp_path / "tasks.jsonl")}))
    assert trajectory.outcome.success and trajectory.attributes["output"].endswith("xend\n")


@pytest.mark.parametrize(
    ("instruction", "said"),
    [("x" * (1 << 18), "standard input"), ("a \0 in it", "null byte")],
    ids=["too long", "with a NUL"],
)
@levels
async def test_a_prompt_that_no_argument_can_hold_is_that_trajectorys_failure(
    tmp_path: Path, sandbox: str, instruction: str, said: str
) -> None:
    good = {"id": "good", "env": "workspace", "instruction": "Do nothing.", "data": {}}
    (tmp_path / "tasks.jsonl").write_text(
        "\n".join(json.dumps(task) for task in ({**good, "id": "bad", "instruction": instruction}, good))
    )
    tasks = {"file": str(tmp_path / "tasks.jsonl")}
    result = await run_rollout(config(tmp_path, "echo {prompt}", sandbox, tasks=tasks))
    failed = {each.task_id: each.outcome.failure for each in result.trajectories}
    assert failed["good"] is None, "its sibling goes on"
    failure = failed["bad"]
    assert failure is not None and (failure.boundary, failure.code) == (Boundary.AGENT, "agent.start")
    assert said in failure.message and "\n" not in failure.message


async def test_a_file_that_is_no_program_is_that_trajectorys_failure(tmp_path: Path) -> None:
    for name, text, said in (("none", "echo hello\n", "#!"), ("lost", "#!/no/such/shell\n", "interpreter")):
        program = tmp_path / name
        program.write_text(text)
        program.chmod(0o755)
        trajectory = await played(config(tmp_path, str(program), run=name))
        failure = trajectory.outcome.failure
        assert failure is not None and failure.code == "agent.start", failure
        assert said in failure.message and "\n" not in failure.message


HOMES = {
    "a link for its home": "mv .home old; ln -s {secrets} .home",
    "a link for its answer": "ln -s {secrets}/answer .home/answer",
    "a pipe for its answer": "mkfifo .home/answer",
    "a folder for its answer": "mkdir -p .home/answer/deep",
    "a file for its home": "rm -rf .home; echo 1 > .home",
}


@levels
@pytest.mark.parametrize("made", HOMES.values(), ids=HOMES)
async def test_an_answer_is_read_from_the_programs_own_home_and_nowhere_else(
    tmp_path: Path, sandbox: str, made: str
) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "answer").write_text("the secret")
    script = tmp_path / "tricks.sh"
    script.write_text(made.format(secrets=secrets) + "; echo plain\n")
    # An environment that asks twice, so that what the first start left is met by the second.
    asks_again = {"env": (f"{BREAKING}:Breaking",), "tasks": {"ids": ("breaking/endless",)}}
    trajectory = await played(config(tmp_path, f"sh {script}", sandbox, **asks_again))
    assert (secrets / "answer").read_text() == "the secret", "nothing of it was removed"
    assert "the secret" not in str(trajectory)
    assert trajectory.outcome.failure is None, trajectory


async def test_tokens_of_an_episode_are_bounded(tmp_path: Path) -> None:
    program = tmp_path / "asks.py"
    program.write_text(ASKS)
    trajectory = await played(config(tmp_path, f"{sys.executable} {program}", budget={"episode_tokens": 40}))
    failure = trajectory.outcome.failure
    assert failure is not None and failure.boundary == Boundary.BUDGET, trajectory
    assert "of 40 tokens" in failure.message
    tokens = trajectory.usage.prompt_tokens + trajectory.usage.completion_tokens
    assert trajectory.turns >= 1 and tokens >= 40
    assert trajectory.turns < 50, "it would have asked fifty times"


ASKS = """
import json, os, urllib.request
for turn in range(50):
    body = {"model": "any", "messages": [{"role": "user", "content": f"Number {turn}?"}]}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
        {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"})
    urllib.request.urlopen(request).read()
"""


@pytest.mark.parametrize(
    ("given", "named"),
    [({"sampling": {"temperature": 0.5}}, "sampling"), ({"snapshots": {"every": 1}}, "snapshots")],
)
def test_what_a_program_would_not_heed_is_refused_by_name(tmp_path: Path, given: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=rf"{named}: .*program"):
        config(tmp_path, "true", **given)
