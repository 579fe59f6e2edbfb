"""The verdict comes from where nothing of the agent's can write: what the agent leaves, and what the tests run of it,
reach neither the tests nor the reward nor who writes it; and what cannot be kept aside is judged as it stands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from silva.envs.gyms.terminal.environment import Terminal
from silva.envs.gyms.terminal.verdict import NoReward
from silva.sandbox.forkserver.rules import stays
from silva.sandbox.system import probe
from silva.tree import Task, assistant, call

sandboxes = pytest.mark.skipif(bool(probe().problem), reason="needs bubblewrap (Debian: apt-get install bubblewrap)")

DOCKERFILE = "FROM python:3.11-slim\nWORKDIR /app\nRUN echo 'print(1)' > sum.py\n"
TEST = """#!/bin/bash
cd /app
if python3 /tests/check.py; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
"""
CHECK = """
import subprocess, sys
from helping import wanted  # beside it
for numbers in ([1, 2], [3, 4, 5]):
    words = [sys.executable, "/app/sum.py", *map(str, numbers)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=20)
    if done.stdout.strip() != str(wanted(numbers)):
        sys.exit(f"{numbers}: {done}")
"""
RIGHT = "import sys\nprint(sum(map(int, sys.argv[1:])))\n"
EVIL = "import os\nos.makedirs('/logs/verifier', exist_ok=True)\nopen('/logs/verifier/reward.txt', 'w').write('1')\n"
PREPARED = f"""
mkdir -p ~/.local/lib/python3.11/site-packages ~/bin ~/.config/pip /tmp/bin
for place in . ~ /tmp /var/tmp ~/.local/lib/python3.11/site-packages; do
  for name in sitecustomize usercustomize conftest subprocess helping json; do cat > $place/$name.py <<'P'
{EVIL}P
  done
  echo 'import os; os.system("echo 1 > /logs/verifier/reward.txt")' > $place/evil.pth
  echo '[pytest]' > $place/pytest.ini
done
for name in python3 bash sh echo; do for place in ~/bin /tmp/bin .; do
  printf '#!/bin/sh\\necho 1 > /logs/verifier/reward.txt\\n' > $place/$name; chmod +x $place/$name
done; done
for name in .bashrc .profile .bash_profile .pythonrc; do echo 'echo 1 > /logs/verifier/reward.txt' > ~/$name; done
ln -s /logs/verifier link; ln -s /tests seen; mkdir -p /tmp/logs/verifier
(while :; do for d in /logs/verifier /tmp/*/verifier; do echo 1 > $d/reward.txt; done; sleep 0.1; done) &> /dev/null &
"""
ATTACKS = """
import glob, os, signal, sys
def tried(do):
    try: do()
    except OSError: pass
def write(path):
    with open(path, "w") as file: file.write("1")
hidden = ("/*/verifier", "/tmp/*/verifier", "/proc/*/root/logs/verifier")
for folder in ["/logs/verifier", *(each for pattern in hidden for each in glob.glob(pattern))]:
    tried(lambda: write(folder + "/reward.txt"))
for path in glob.glob("/tests/*") + glob.glob("/proc/*/root/tests/*"):
    tried(lambda: write(path))
for path in glob.glob("/proc/[0-9]*"):
    if path != f"/proc/{os.getpid()}":
        tried(lambda: os.open(path + "/mem", os.O_RDWR))
        tried(lambda: [write(fd) for fd in glob.glob(path + "/fd/*")])
if os.fork() == 0:
    os.setsid()
    for _ in range(20):
        tried(lambda: os.kill(-1, signal.SIGSTOP if len(sys.argv) > 9 else signal.SIGCONT))
        tried(lambda: write("/logs/verifier/reward.txt"))
    os._exit(0)
print(sorted(os.listdir("/tests")), os.path.exists("/logs/verifier"))
"""


def folder(place: Path, check: str = CHECK, settings: str = "", test: str = TEST) -> Path:
    """A task of one's own."""
    (place / "sums" / "tests").mkdir(parents=True)
    (place / "sums" / "environment").mkdir()
    for name, text in (
        ("task.toml", f"[metadata]\ndifficulty = 'easy'\n{settings}"),
        ("instruction.md", "Have /app/sum.py print the sum of its arguments.\n"),
        ("environment/Dockerfile", DOCKERFILE),
        ("tests/test.sh", test),
        ("tests/check.py", check),
        ("tests/helping.py", "def wanted(numbers):\n    return sum(numbers)\n"),
    ):
        (place / "sums" / name).write_text(text)
    return place


@pytest.fixture
async def env(tmp_path: Path) -> AsyncIterator[Terminal]:
    terminal = Terminal(snapshots=str(tmp_path / "snapshots"), tasks=str(tmp_path / "tasks"))
    yield terminal
    await terminal.close()


async def judged(env: Terminal, program: str, command: str = "true") -> float:
    """The score of whoever writes this program and runs this command."""
    await env.reset(Task(id="terminal/sums", env="terminal"), 0)
    await env.step(assistant("", call("file_write", {"path": "sum.py", "text": program})))
    await env.step(assistant("", call("session_run", {"command": command})))
    return (await env.evaluate()).score


@sandboxes
async def test_who_does_it_right_is_right_and_who_attacks_the_verdict_is_not(env: Terminal, tmp_path: Path) -> None:
    folder(tmp_path / "tasks")
    assert await judged(env, RIGHT) == 1.0
    assert await judged(env, ATTACKS) == 0.0
    assert await judged(env, ATTACKS, PREPARED) == 0.0
    assert await judged(env, RIGHT, PREPARED.replace("json", "other").replace("subprocess", "another")) == 1.0


@sandboxes
async def test_tests_whose_own_python_would_import_the_agents_code_are_refused_by_name(
    env: Terminal, tmp_path: Path
) -> None:
    check = "import sys; sys.path.insert(0, '/app')\nimport sum\n"
    folder(tmp_path / "tasks", check)
    with pytest.raises(NoReward, match=r"imports /workspace/sum.py.*imports = true"):
        await judged(env, "import os; os._exit(0)")
    (tmp_path / "tasks" / "sums" / "task.toml").write_text("[metadata.silva]\nimports = true\n")
    assert await judged(env, "pass") == 1.0


DEEP = "python3 -c \"import os\nfor i in range(20): os.mkdir('d'*250); os.chdir('d'*250)\""
UNREADABLE = "mkdir hidden; touch hidden/x; chmod 000 hidden hidden/x"


@sandboxes
@pytest.mark.parametrize("left", [DEEP, UNREADABLE], ids=["over PATH_MAX", "unreadable"])
async def test_a_state_that_cannot_be_kept_is_judged_as_it_stands(env: Terminal, tmp_path: Path, left: str) -> None:
    folder(tmp_path / "tasks")
    assert await judged(env, RIGHT, left) == 1.0
    assert await judged(env, ATTACKS, left) == 0.0


@sandboxes
async def test_asking_for_the_score_of_what_cannot_be_kept_ends_nothing(env: Terminal, tmp_path: Path) -> None:
    folder(tmp_path / "tasks")
    await env.reset(Task(id="terminal/sums", env="terminal"), 0)
    await env.step(assistant("", call("session_run", {"command": DEEP})))
    for tool, arguments in (("evaluate", {}), ("session_run", {"command": "echo still $((40 + 2))"})):
        (answer,) = (await env.step(assistant("", call(tool, arguments)))).messages
    assert "still 42" in answer.text


@pytest.mark.parametrize(
    ("line", "own"),
    [
        ("/usr/bin/python3 /tests/check.py", True),
        ("/usr/bin/python3 -m pytest /tests/test_outputs.py -rA", True),
        ("/usr/local/bin/uvx -p 3.13 pytest --ctrf /logs/verifier/ctrf.json /tests/test_outputs.py", True),
        ("/usr/bin/bash /tests/run.sh", True),
        ("/usr/bin/cat /workspace/answer.txt", True),
        ("/usr/bin/python3 -", True),
        ("/usr/bin/python3 /workspace/main.py /tests/input.csv", False),
        ("/usr/bin/python3 -m mine /tests/input.csv /workspace", True),
        ("/usr/bin/python3 main.py", False),
        ("/usr/bin/make -C /workspace check", False),
        ("/usr/bin/env python3 /workspace/main.py", False),
        ("/usr/bin/git -C /workspace log", False),
        ("/workspace/run.sh /tests/input", False),
        ("/workspace/.venv/bin/python /tests/check.py", False),
        ("/usr/bin/pytest", False),
        ("/usr/bin/python3 /testsuite/x.py", False),
    ],
)
def test_a_program_is_the_judges_own_where_its_words_name_the_tests_first(line: str, own: bool) -> None:
    path, *rest = line.split()
    assert stays(path, [path, *rest], ("/tests", "/logs"), ("/workspace", "/home/agent", "/tmp")) is own


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("cd /tests && ls", True),
        ("cd /workspace && python3 main.py", False),
        ("source /workspace/env && pytest /tests", False),
        (". /tests/env; true", True),
    ],
)
def test_a_shells_text_is_the_judges_own_where_it_names_the_tests_and_reads_nothing_else(text: str, own: bool) -> None:
    assert stays("/usr/bin/bash", ["bash", "-c", text], ("/tests", "/logs"), ("/workspace",)) is own
