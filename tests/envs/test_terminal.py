"""The terminal gym in real sandboxes: sessions, files, tests the agent cannot see, snapshots that outlive the host."""

from __future__ import annotations

import asyncio
import io
import shutil
import zipfile
from pathlib import Path

import pytest

from silva.envs import HostPool, Registry
from silva.envs.check import check
from silva.envs.gyms.terminal import harbor
from silva.envs.gyms.terminal.environment import OWN, Terminal
from silva.errors import MissingError, UsageError
from silva.tree import Message, Task, ToolCall, assistant, call

pytestmark = pytest.mark.slow


def task(name: str = "access-log", **data) -> Task:
    return Task(id=f"terminal/{name}", env="terminal", data=data)


@pytest.fixture
async def made(tmp_path):
    """Make a terminal; its backend is closed after the test."""
    opened: list[Terminal] = []

    def make(**options) -> Terminal:
        opened.append(Terminal(**{"snapshots": str(tmp_path / "snapshots"), **options}))
        return opened[-1]

    yield make
    for each in opened:
        await each.close()


async def do(env: Terminal, tool: str, **arguments) -> str:
    observation = await env.step(assistant("", call(tool, arguments)))
    (answer,) = observation.messages
    assert answer.role == "tool" and answer.tool_call_id == tool
    return answer.text


async def play(env: Terminal, turns: int = 40) -> list[Message]:
    said: list[Message] = []
    for _ in range(turns):
        observation = await env.step(await env.expert())
        said += observation.messages
        if observation.done:
            break
    return said


@pytest.fixture
async def env(made):
    env = made()
    try:
        await env.reset(task(), 0)
    except MissingError as error:
        pytest.skip(str(error))
    return env


async def test_sessions_keep_their_folder_and_run_on_between_turns(env):
    assert await do(env, "session_run", command="mkdir a && cd a && X=7") == "[exit code 0]"
    assert await do(env, "session_run", command="pwd; echo $X; false") == "/workspace/a\n7\n[exit code 1]"
    assert (
        await do(env, "session_run", command='for i in 1 2; do\n echo "it\'s $i"\ndone')
        == "it's 1\nit's 2\n[exit code 0]"
    )
    said = await do(env, "session_run", command="echo one; sleep 1; echo two", wait=0.3)
    assert said.startswith("one\n[still running: echo one; sleep 1; echo two; position ")
    assert "still runs" in await do(env, "session_run", command="ls")
    assert await do(env, "session_create", session="side") == "session side in /workspace"
    assert await do(env, "session_run", session="side", command="pwd") == "/workspace\n[exit code 0]"
    assert await do(env, "session_output", wait=10) == "two\n[exit code 0]"
    assert "one\ntwo" in await do(env, "session_output", since=0)
    assert "[exit code 0] quiet for" in await do(env, "session_idle")


async def test_programs_are_typed_to_interrupted_and_killed(env):
    assert "[started" in await do(env, "session_start", command="read -p 'name? ' name; echo hello $name")
    assert await do(env, "session_input", text="ada") in ("name? hello ada\n[exit code 0]", "hello ada\n[exit code 0]")
    assert "nothing runs" in await do(env, "session_input", text="x")
    await do(env, "session_start", command="sleep 1000")
    assert "[exit code 130]" in await do(env, "session_input", key="ctrl-c")
    await do(env, "session_start", command="cat")
    assert "one" in await do(env, "session_input", text="one")
    assert "[exit code 0]" in await do(env, "session_input", key="ctrl-d")
    await do(env, "session_start", command="sleep 1000 & sleep 1000")
    assert await do(env, "session_kill") == "session main has ended"
    assert "no session main" in await do(env, "session_output")
    assert await do(env, "session_run", command="pgrep -fc 'sleep 1000'") == "0\n[exit code 1]"  # main is made anew
    assert "session main has ended" in await do(env, "session_run", command="exit 3")
    assert await do(env, "session_run", command="echo back") == "back\n[exit code 0]"


async def test_a_program_that_lets_go_of_its_terminal_is_waited_for_and_nothing_else_is_held_up(env):
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.02)
            turns += 1

    beside = asyncio.create_task(others())
    said = await do(env, "session_run", command="trap '' HUP; exec sleep 2 <&- >&- 2>&-", wait=1)
    assert "[still running: trap" in said and turns > 5
    assert "session main has ended" in await do(env, "session_output", wait=30)
    beside.cancel()


async def test_floods_long_lines_and_nonsense_are_survived(env):
    said = await do(env, "session_run", command="yes | head -c 3000000; echo end")
    assert len(said) < 20_000 and "left out" in said and said.endswith("end\n[exit code 0]")
    said = await do(env, "session_run", command="head -c 100000 /dev/urandom; echo; echo end")
    assert said.endswith("end\n[exit code 0]") and "\x1e" not in said
    long = "x" * 20_000
    assert await do(env, "session_run", command=f"echo {long} | wc -c") == "20001\n[exit code 0]"
    assert await do(env, "session_run", command="ls /tmp | grep -c command") == "0\n[exit code 1]"
    assert "syntax error" in await do(env, "session_run", command="if then (")
    for bad in (
        ToolCall(id="a", name="session_run", arguments="{oops"),
        ToolCall(id="b", name="fly", arguments="{}"),
        call("file_view", {"path": "nowhere"}),
        call("file_view", {"path": "/proc/kcore"}),
        call("file_edit", {"path": "access.log", "old": "no such text", "new": ""}),
        call("file_write", {"path": "/usr/x", "text": ""}),
        call("file_search", {"pattern": "("}),
        call("document_read", {"path": "access.log"}),
        call("session_create", {"session": "x", "folder": "/nowhere"}),
        call("session_input", {"key": "any"}),
    ):
        observation = await env.step(assistant("", bad))
        assert observation.messages[0].text.startswith("error: ") and not observation.done
        assert "\n" not in observation.messages[0].text
    assert await do(env, "session_run", command="echo fine") == "fine\n[exit code 0]"


async def test_files_are_viewed_written_edited_and_searched(env):
    assert "written" in await do(env, "file_write", path="src/a.sh", text="#!/bin/sh\necho old\n")
    await do(env, "session_run", command="chmod 750 src/a.sh")
    assert "line 2" in await do(env, "file_edit", path="src/a.sh", old="old", new="new")
    assert await do(env, "session_run", command="stat -c %a src/a.sh; src/a.sh") == "750\nnew\n[exit code 0]"
    assert await do(env, "file_view", path="src/a.sh", first=2) == "     2  echo new\n[lines 2 to 2 of 2]"
    assert "a.sh" in await do(env, "file_view", path="src") and "access.log" in await do(env, "file_view", path=".")
    assert await do(env, "file_search", pattern="echo n.w", names="*.sh") == "src/a.sh:2:echo new"
    assert await do(env, "file_search", pattern="zzzz") == "no line matches"


async def test_the_tests_are_nowhere_to_be_seen_and_leave_nothing(env, tmp_path):
    hidden = "find / -name turns.json -o -name solve.sh -o -path '*/tests/test.sh' 2>/dev/null"
    found = await do(env, "session_run", command=hidden, wait=45)  # a full disk takes longer than a usual command may
    assert found.startswith("[exit code")
    assert await do(env, "evaluate") == "score 0 of 1; it can be asked for 2 more times"
    assert await do(env, "session_run", command="ls -A /tmp; ls -d /tests /logs 2>&1 | wc -l") == "2\n[exit code 0]"
    await do(env, "evaluate")
    await do(env, "evaluate")
    assert "that has been done" in await do(env, "evaluate")
    made = await env.evaluate()
    assert made.score == 0 and made.metrics["evaluations"] == 3
    await env.close()
    assert not list((tmp_path / "snapshots").glob("*.json"))
    assert not list((tmp_path / "snapshots/layers").iterdir())


async def test_what_an_agent_leaves_for_the_tests_to_import_is_not(env):
    site = "/home/agent/.local/lib/python3.11/site-packages"
    trick = "import os\nos._exit(0)\n"
    for path in (f"{site}/usercustomize.py", f"{site}/sitecustomize.py", "json.py", "/home/agent/.bashrc"):
        await do(env, "file_write", path=path, text=trick if path.endswith(".py") else "exit 0\n")
    assert (await env.evaluate()).score == 0


@pytest.mark.parametrize("backend", ["namespaces", "process"])
async def test_scripts_alone_solve_every_task(made, tmp_path, backend):
    tasks = tmp_path / "tasks"
    names = [folder.name for folder in harbor.folders(OWN)]
    shutil.copytree(OWN, tasks)
    for name in names:
        (tasks / name / "solution" / "turns.json").unlink()
    env = made(tasks=str(tasks), backend=backend)
    for name in names if backend == "namespaces" else ["guard-key", "tidy-caches", "merge-settings"]:
        await env.reset(task(name), 0)
        assert (await env.evaluate()).score == 0, name
        await play(env)
        assert (await env.evaluate()).score == 1, name


async def test_traps_are_risks_and_cost_safety(made):
    env = made()
    await env.reset(task("tidy-caches"), 0)
    observation = await env.step(assistant("", call("session_run", {"command": "rm -rf ~/keep && chmod -R 777 ."})))
    assert {risk.kind for risk in observation.risks} == {"delete", "permission"}
    made_of_it = await env.evaluate()
    assert (made_of_it.score, made_of_it.safety) == (0, 0.0) and made_of_it.metrics["risk_delete"] == 1
    await env.reset(task("tidy-caches"), 0)
    await play(env)
    made_of_it = await env.evaluate()
    assert (made_of_it.score, made_of_it.safety, made_of_it.metrics["risks"]) == (1, 1.0, 0)


async def test_a_snapshot_is_gone_back_to_by_another_process(made, tmp_path):
    env = made()
    await env.reset(task("fix-invoice"), 0)
    for _ in range(3):
        await env.step(await env.expert())
    await do(env, "session_run", command="mkdir sub; cd sub; sleep 1000 &")
    await do(env, "session_start", session="main", command="sleep 500")
    kept = await env.snapshot()
    await do(env, "file_write", path="invoice.py", text="broken")
    assert (await env.evaluate()).score == 0
    notice = await env.restore(kept)
    said = await do(env, "session_run", command="pwd; pgrep -fc 'sleep (500|1000)'")
    assert notice.startswith(
        "[the sessions begin anew, without their variables: main in /workspace/sub; it was running `sleep 500`"
    )
    assert said == "/workspace/sub\n0\n[exit code 1]"
    await env.close()

    entry = Registry.load().entry("terminal")
    try:
        interpreter_ready = HostPool(entry)
    except MissingError as error:
        pytest.skip(str(error))
    del interpreter_ready
    script = (
        "import asyncio, sys\n"
        "from silva.envs.gyms.terminal.environment import Terminal\n"
        "async def main():\n"
        "    env = Terminal(snapshots=sys.argv[1])\n"
        "    await env.restore(sys.argv[2])\n"
        "    while not (await env.step(await env.expert())).done: pass\n"
        "    print((await env.evaluate()).score, env._state.turns)\n"
        "    await env.close()\n"
        "asyncio.run(main())\n"
    )
    import sys

    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(tmp_path / "snapshots"), kept, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert out.decode().split() == ["1.0", "9"]  # three, two more, and the four that were left


async def test_branches_from_one_snapshot_do_not_see_each_other(made):
    one, two = made(), made()
    await one.reset(task("merge-settings"), 0)
    await one.step(await one.expert())
    kept = await one.snapshot()
    await two.restore(kept)
    assert await do(one, "session_run", command="echo 1 > only-one; ls") != await do(two, "session_run", command="ls")
    await play(two)
    assert ((await one.evaluate()).score, (await two.evaluate()).score) == (0, 1)
    await two.restore(kept)
    assert (await two.evaluate()).score == 0


async def test_a_snapshot_that_is_gone_or_damaged_is_refused_and_nothing_is_lost(made, tmp_path):
    env = made()
    await env.reset(task(), 0)
    await do(env, "file_write", path="mine.txt", text="kept")
    kept = await env.snapshot()
    for layer in (tmp_path / "snapshots/layers").iterdir():
        for path in layer.rglob("mine.txt"):
            path.write_text("changed")
    for bad, why in (("0123456789abcdef", "no checkpoint"), ("../x", "no checkpoint"), (kept, "damaged")):
        with pytest.raises(UsageError, match=why) as caught:
            await env.restore(bad)
        assert "\n" not in str(caught.value)
    assert await do(env, "session_run", command="ls -1") == "access.log\nmine.txt\n[exit code 0]"


async def test_a_task_that_cannot_be_played_is_refused_by_name(made, tmp_path):
    folder = tmp_path / "mine"
    shutil.copytree(OWN / "access-log", folder)
    (folder / "environment/Dockerfile").write_text("FROM python:3.11\nWORKDIR /app\nRUN cat gone.txt\n")
    env = made()
    with pytest.raises(UsageError, match=r"task mine: environment/Dockerfile line 3: RUN failed: cat: gone.txt"):
        await env.reset(task("mine", folder=str(folder)), 0)
    (folder / "environment/Dockerfile").write_text("FROM python:3.11\nWORKDIR /app\nCOPY files/ /usr/data/\n")
    with pytest.raises(UsageError, match=r"task mine: environment/Dockerfile line 1: /usr/data\S* lies outside /app"):
        await env.reset(task("mine", folder=str(folder)), 0)
    with pytest.raises(UsageError, match="there is no task 'terminal/none'"):
        await env.reset(task("none"), 0)
    (folder / "environment/Dockerfile").write_text("FROM python:3.11\nWORKDIR /app\n")
    (folder / "tests/test.sh").write_text("echo no >&2\n")
    await env.reset(task("mine", folder=str(folder)), 0)
    with pytest.raises(Exception, match=r"tests/test.sh wrote no reward .*\(exit code 0, no\)"):
        await env.evaluate()
    (folder / "tests/test.sh").write_text('echo \'{"a": 1, "b": 0.5}\' > /logs/verifier/reward.json\n')
    await env.reset(task("mine", folder=str(folder)), 0)
    made_of_it = await env.evaluate()
    assert made_of_it.score == 0.75 and made_of_it.metrics["reward_b"] == 0.5


async def test_expert_and_null_score_as_declared_in_a_host_of_its_own():
    entry = Registry.load().entry("terminal")
    try:
        HostPool(entry)
    except MissingError as error:
        pytest.skip(str(error))
    found = await check(entry, n=10)
    assert found.holds, found


async def test_documents_are_read_in_a_sandbox_of_their_own(tmp_path):
    """A picture that is no picture, a bomb, and the papers of a task, through a host with the packages."""
    entry = Registry.load().entry("terminal")
    bomb = io.BytesIO()
    with (
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("[Content_Types].xml", "w") as part,
    ):
        part.write(b"<a>")
        for _ in range(160):
            part.write(b"0" * (1 << 20))
    folder = tmp_path / "mine"
    shutil.copytree(OWN / "read-contract", folder)
    papers: Path = folder / "environment/files/papers"
    (papers / "bomb.docx").write_bytes(bomb.getvalue())
    (papers / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\xff" * 64)
    try:
        pool = HostPool(entry)
    except MissingError as error:
        pytest.skip(str(error))
    async with pool, pool.lease() as env:
        await env.reset(task("mine", folder=str(folder)), 0)
        said = {}
        for name in ("contract.pdf", "annex.docx", "seal.png", "bomb.docx", "bad.png"):
            observation = await env.step(assistant("", call("document_read", {"path": f"papers/{name}"})))
            said[name] = observation.messages[0].text
    assert "14 September 2026" in said["contract.pdf"] and "more than 30 days | 6 percent" in said["annex.docx"]
    assert "Serial: FP-20931" in said["seal.png"]
    assert said["bomb.docx"].startswith("error: papers/bomb.docx cannot be read as docx: ")
    assert said["bad.png"].startswith("error: papers/bad.png cannot be read as image: ")
