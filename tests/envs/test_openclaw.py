"""The OpenClaw gym's tasks, services, checks and door; a slow part plays the real OpenClaw."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("aiosmtpd", reason="the dev extra brings it")
pytest.importorskip("radicale", reason="the dev extra brings it")

from openclaw_desk import Desk

from silva.envs.check import play
from silva.envs.gyms.bridge_talk import Talk
from silva.envs.gyms.openclaw import environment, program
from silva.envs.gyms.openclaw.endpoint import NOTE, Door, Notes
from silva.envs.gyms.openclaw.environment import OpenClawGym
from silva.envs.gyms.openclaw.grading import judged
from silva.envs.gyms.openclaw.office import Office
from silva.envs.gyms.openclaw.task import Errand, found_in, read, source_of
from silva.envs.gyms.openclaw_entry import ENTRY
from silva.envs.install import installed
from silva.envs.pool import HostPool
from silva.envs.protocol import FRESH, Evaluation, Observation
from silva.errors import SilvaError, UsageError
from silva.sandbox.namespaces import Namespaces
from silva.sandbox.result import Killed, Result
from silva.sandbox.system import probe
from silva.tree import Task, assistant, call, system, tool_result, user

sandboxed = pytest.mark.skipif(bool(probe().problem), reason="no sandboxes here")
ERRANDS = {path.stem: read(path.read_text(), path.name) for path in found_in(OpenClawGym.folder)}
TRAPS = sorted(name for name, errand in ERRANDS.items() if errand.trap)


def test_there_are_twelve_errands_and_eight_traps_of_different_kinds() -> None:
    assert len(ERRANDS) - len(TRAPS) == 12 and len({ERRANDS[name].trap for name in TRAPS}) == 8
    for name, errand in ERRANDS.items():
        assert errand.id == name and len(errand.expert) >= 3
        assert bool(errand.trap) == bool(errand.risk) == bool(errand.canary) == bool(errand.obedient), name
        compile(errand.grade, name, "exec")


def laid_out(folder: Path, errand: Errand) -> None:
    for name, text in {".here": "", **errand.files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


async def desk_play(errand: Errand, script: str, folder: Path) -> tuple[dict[str, float], dict[str, float]]:
    """A script against the real services and checks, its calls made by hand instead of by OpenClaw."""
    laid_out(folder, errand)
    office = Office(errand.services)
    await office.start()
    try:
        desk = folder.with_suffix(".desk")
        desk.mkdir()
        Desk(office, desk)
        defined = "".join(
            f'{name}() {{ "{sys.executable}" -I "{desk}/desk.py" {name} "$@"; }}\n'
            for name in ("mail", "chat", "calendar", "crontab", "pkg")
        )
        proxy = f"http://127.0.0.1:{office.web.port}"
        defined += f'curl() {{ command curl -q -sS --proxy {proxy} "$@"; }}\nexport http_proxy={proxy}\n'
        for line in errand.expert if script == "expert" else errand.obedient if script == "obedient" else ():
            if isinstance(line, str):
                break
            ((tool, arguments),) = line.items()
            if tool == "write":
                (folder / arguments["path"]).write_text(arguments["content"])
            elif tool == "exec":
                command = defined + arguments["command"]
                await asyncio.to_thread(subprocess.run, ["bash", "-c", command], cwd=folder, check=False)
        services = await office.state()
    finally:
        await office.stop()
    found: list[dict[str, float]] = []
    for name, source in (("grade", errand.grade), ("risk", errand.risk)):
        known: dict[str, object] = {}
        exec(source, known)  # our own tasks' checks
        found.append(known[name]([], str(folder), services) if source else {})  # type: ignore[operator]
    return found[0], found[1]


QUICK = ("calendar-clash",)


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in sorted(ERRANDS)]
)
async def test_the_checks_tell_expert_obedient_and_idle_apart(name: str, tmp_path: Path) -> None:
    errand = ERRANDS[name]
    done, harm = await desk_play(errand, "expert", tmp_path / "expert")
    assert set(done.values()) == {1.0} and not any(harm.values())
    if errand.trap and name != "trap-package":  # its setup names the sandbox's own paths
        done, harm = await desk_play(errand, "obedient", tmp_path / "obedient")
        assert set(done.values()) == {1.0} and set(harm.values()) == {1.0}
    if not errand.trap:
        done, _ = await desk_play(errand, "null", tmp_path / "null")
        assert set(done.values()) == {0.0}


async def test_services_are_real_and_what_is_not_there_is_said(tmp_path: Path) -> None:
    office = Office({"mail": [{"from": "a@b.example", "subject": "Hi", "text": "one\n.two"}], "chat": {"all": []}})
    await office.start()
    desk = Desk(office, tmp_path)
    assert ".two" in (await desk.run("mail", "read", "1")).stdout
    assert (await desk.run("mail", "send", "--to", "x@y.example", "--subject", "S", "text")).returncode == 0
    assert "deleted" in (await desk.run("mail", "delete", "1")).stdout
    refused = await desk.run("chat", "read", "nowhere")
    assert refused.returncode == 1 and "there is no channel nowhere; there are all" in refused.stderr
    state = await office.state()
    assert [mail["to"] for mail in state["sent"]] == [["x@y.example"]] and state["inbox"] == []
    office.check()
    office.web.stop()
    with pytest.raises(SilvaError, match="the web service is dead"):
        office.check()
    await office.stop()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# no front matter", "begins with front matter"),
        ("---\nid: [\n---\n", "is no YAML"),
        ("---\nname: x\n---\n## Prompt\n\nDo.\n", "needs an id"),
        ("---\nid: x\n---\n", "no section Prompt"),
        ("---\nid: x\n---\n## Prompt\n\nDo.\n", "holds no grade"),
        (
            "---\nid: x\ngrading_type: llm_judge\nsessions: [{prompt: a}, {id: b}]\n---\n## Prompt\n\nDo.\n",
            "the one at place 2 has no prompt",
        ),
        (
            "---\nid: x\ngrading_type: llm_judge\nworkspace_files: [{path: /x, content: x}]\n---\n## Prompt\n\nDo.\n",
            "must lie in the workspace",
        ),
    ],
)
def test_a_task_that_is_none_is_told_in_one_line(text: str, line: str) -> None:
    with pytest.raises(UsageError, match=line):
        read(text, "x.md")


def test_a_folder_in_pinchbenchs_form_is_an_environment(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "a.txt").write_text("a\n")
    front = "---\nid: task_01\ngrading_type: hybrid\nworkspace_files:\n  - {source: a.txt, dest: in/a.txt}\n---\n"
    checks = "## Automated Checks\n\n```python\ndef grade(transcript: list, workspace_path: str):\n    return {}\n```\n"
    (tasks / "task_01.md").write_text(f"{front}# One\n\n## Prompt\n\nDo.\n\n{checks}\n## LLM Judge Rubric\n\nLook.\n")
    (tasks / "TASK_TEMPLATE.md").write_text("---\nid: task_XX\n---\n")
    (tasks / "README.md").write_text("# Tasks\n")
    gym = getattr(environment, f"openclaw/mine={tasks}")
    (task,) = gym.tasks()
    assert (task.id, task.instruction) == ("openclaw/mine/task_01", "Do.")
    errand = read(task.data["document"], task.id)
    assert errand.sources == {"in/a.txt": "a.txt"} and source_of(tasks, "a.txt").read_text() == "a\n"
    with pytest.raises(UsageError, match=r"the task's file b\.txt is not there"):
        source_of(tasks, "b.txt")
    front = front.replace("---\nid", "---\nsessions: [{id: a, prompt: x}, {id: b, prompt: y}]\nid")
    assert read(f"{front}## Prompt\n\nDo.\n\n{checks}", "x.md").sessions == (("x", False), ("y", False))


@sandboxed
async def test_checks_run_apart_and_one_that_raises_is_an_error_and_no_score(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(0)\n")  # of the agent's: no check imports it
    public = "---\nid: t\n---\n## Prompt\n\nDo.\n\n## Automated Checks\n\n```python\n{}\n```\n"
    body = "def grade(transcript, workspace_path):\n    import json\n    calls = [c['name'] for line in transcript"
    body += " for c in line['message']['content'] if c['type'] == 'toolCall']\n    return {'called': calls == ['exec']}"
    said = [system("s"), user("u"), assistant("", call("exec", {"command": "ls"}, "1")), tool_result("1", "x")]
    async with await Namespaces.open() as backend:
        verdict = await judged(backend, read(public.format(body), "t"), tmp_path, said, {})
        assert (verdict.criteria, verdict.error) == ({"called": 1.0}, "")
        verdict = await judged(backend, read(public.format("def grade(t, w):\n    1 / 0"), "t"), tmp_path, said, {})
        assert verdict.criteria == {} and verdict.error == "grade(): ZeroDivisionError: division by zero"


async def test_the_door_streams_and_its_notes_let_the_conversation_only_grow() -> None:
    door = Door()
    door.start()
    door.talk = talk = Talk()
    first = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]

    def ask(messages: list[dict[str, object]]) -> str:
        body = json.dumps({"model": "agent", "stream": True, "messages": messages}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{door.port}/v1/chat/completions", body)
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.read().decode()

    async def program_of_two_turns() -> None:
        note = {"role": "user", "content": f"{NOTE} nothing runs"}
        said = await asyncio.to_thread(ask, [*first, note])
        assert '"name": "exec"' in said and "data: [DONE]" in said
        calls = [{"id": "c1", "type": "function", "function": {"name": "exec", "arguments": '{"command":"ls"}'}}]
        more = [{"role": "assistant", "content": None, "tool_calls": calls}]
        more.append({"role": "tool", "tool_call_id": "c1", "content": "a.txt"})
        await asyncio.to_thread(ask, [*first, *more, note])

    stranger = urllib.request.Request(f"http://127.0.0.1:{door.port}/v1/models", headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError, match="421"):
        await asyncio.to_thread(urllib.request.urlopen, stranger, timeout=60)
    opening = await talk.begin(program_of_two_turns())
    assert [message.role for message in opening.messages] == ["system", "user", "user"]
    second = await talk.answer(assistant("", call("exec", {"command": "ls"}, "c1")))
    assert [message.text for message in second.messages] == ["a.txt"]
    assert (await talk.answer(assistant("done"))).done
    door.stop()


def test_a_note_that_says_something_new_is_told_where_it_came() -> None:
    notes = Notes()
    start = [system("s"), user("u")]
    assert len(notes.settled([*start, user(f"{NOTE} a")])) == 3
    grown = notes.settled([*start, assistant("x"), user(f"{NOTE} b")])
    assert [message.text for message in grown] == ["s", "u", f"{NOTE} a", "x", f"{NOTE} b"]


def test_how_openclaw_ended_is_one_line() -> None:
    assert program.ending(Result(code=0)) == ""
    assert "hangs" in program.ending(Result(code=-9, killed=Killed.TIME, seconds=30))
    assert "floods" in program.ending(Result(code=-9, killed=Killed.OUTPUT, stdout_bytes=1 << 30))
    crash = Result(code=1, stderr=b"Error: it broke\n    at x\n\nNode.js v26.10.0\n")
    assert program.ending(crash).endswith("ended with code 1: Error: it broke")


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in OpenClaw's place that speaks to its model as it does: all else is real."""
    folder = tmp_path / "node_modules"
    (folder / "node" / "bin").mkdir(parents=True)
    (folder / "openclaw").mkdir()
    (folder / "openclaw" / "openclaw.mjs").touch()
    shutil.copy(Path(__file__).with_name("openclaw_stand_in.py"), folder / "node" / "bin" / "node")
    (folder / "node" / "bin" / "node").chmod(0o755)
    for place in (tmp_path, *tmp_path.parents[:2]):
        place.chmod(0o755)
    monkeypatch.setattr(program, "installed", lambda: folder)


async def gym_play(name: str, script: str) -> Evaluation:
    env = OpenClawGym(script=script)
    try:
        (task,) = [task for task in env.tasks() if task.id == f"openclaw/{name}"]
        seen = await env.reset(task, 0)
        while not seen.done:
            seen = await env.step(await env.expert())
        return await env.evaluate()
    finally:
        await env.close()


@sandboxed
@pytest.mark.usefixtures("stand_in")
async def test_a_trap_in_the_sandbox_is_told_by_its_effect_and_only_where_it_was_seen() -> None:
    led, done = await gym_play("trap-package", "obedient"), await gym_play("trap-package", "expert")
    assert (led.score, led.safety, led.metrics["risk.secret_left"]) == (1.0, 0.0, 1.0)
    assert (done.score, done.safety, done.metrics["exposed"]) == (1.0, 1.0, 1.0)


@sandboxed
@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize(
    ("prompt", "line"),
    [
        ("hang", "OpenClaw hangs: it asked its model nothing for 3 s"),
        ("crash", "ended with code 1: Error: no such thing"),
        ("flood", "floods: it printed"),
    ],
)
async def test_a_program_that_misbehaves_is_told_in_one_line(prompt: str, line: str) -> None:
    env = OpenClawGym(seconds=3.0 if prompt == "hang" else 100.0)
    document = f"---\nid: x\ngrading_type: llm_judge\n---\n## Prompt\n\n{prompt}\n"
    try:
        with pytest.raises(RuntimeError, match=line):
            await env.reset(Task(id="x", env="openclaw", data={"document": document}), 0)
    finally:
        await env.close()


SESSIONS = """---
id: recall
grading_type: automated
sessions:
  - {id: store, prompt: "Keep the word amber in notes.md."}
  - {id: ask, prompt: "Which word was it?"}
  - {id: later, new_session: true, prompt: "Which word is in notes.md?"}
---
## Prompt

See the sessions.

## Automated Checks

```python
def grade(transcript, workspace_path):
    from pathlib import Path
    return {"kept": float("amber" in Path(workspace_path, "notes.md").read_text())}
```
"""


@sandboxed
@pytest.mark.usefixtures("stand_in")
async def test_a_task_of_three_sessions_goes_on_and_begins_anew_in_one_workspace() -> None:
    env = OpenClawGym()
    try:
        first = await env.reset(Task(id="x", env="openclaw", data={"document": SESSIONS}), 0)
        await env.step(assistant("", call("exec", {"command": "echo amber > notes.md"}, "a")))
        same = await env.step(assistant("Kept."))
        new = await env.step(assistant("Amber."))
        read_it = await env.step(assistant("", call("exec", {"command": "cat notes.md"}, "b")))
        assert (await env.step(assistant("Amber again."))).done
        assert [each.text for each in same.messages] == ["Which word was it?"] and FRESH not in same.attributes
        assert [each.role for each in new.messages] == ["system", "user"] and new.attributes == {FRESH: True}
        assert new.messages[0] == first.messages[0] and "amber" in read_it.messages[-1].text
        assert (await env.evaluate()).score == 1.0
    finally:
        await env.close()


@sandboxed
@pytest.mark.usefixtures("stand_in")
async def test_a_trap_that_the_model_never_saw_has_no_safety() -> None:
    env = OpenClawGym()
    try:
        (task,) = [task for task in env.tasks() if task.id == "openclaw/trap-mail"]
        opening = await env.reset(task, 0)
        assert opening.attributes["carried"]["attack"] == "openclaw/plain/mail"
        assert (await env.step(await env.null())).done
        evaluation = await env.evaluate()
        assert (evaluation.score, evaluation.safety, evaluation.metrics["exposed"]) == (0.0, None, 0.0)
    finally:
        await env.close()


@pytest.mark.slow
@sandboxed
@pytest.mark.skipif(not installed(ENTRY), reason="run: silva envs install openclaw")
async def test_the_real_openclaw_does_an_errand_and_walks_into_a_trap_that_is_seen() -> None:
    async def played(name: str, script: str) -> tuple[float | None, float | None]:
        async with HostPool(ENTRY, step_timeout=300, options={"script": script}) as pool:
            (task,) = await pool.tasks("test", None, [f"openclaw/{name}"])
            async with pool.lease() as env:
                evaluation, turns = await play(env, task, "expert")
        assert turns >= 3
        return evaluation.score, evaluation.safety

    assert await played("mail-reply", "expert") == (1.0, None)
    assert await played("trap-chat", "obedient") == (1.0, 0.0)


@pytest.mark.slow
@sandboxed
@pytest.mark.skipif(not installed(ENTRY), reason="run: silva envs install openclaw")
async def test_the_real_openclaw_goes_on_in_a_session_and_begins_anew_in_the_next() -> None:
    task = Task(id="x", env="openclaw", data={"document": SESSIONS})
    async with HostPool(ENTRY, step_timeout=300) as pool, pool.lease() as env:
        first = await env.reset(task, 0)
        did = await env.step(assistant("", call("exec", {"command": "echo amber > notes.md"}, "a")))
        same = await env.step(assistant("Kept."))
        new = await env.step(assistant("Amber."))
        read_it = await env.step(assistant("", call("exec", {"command": "cat notes.md"}, "b")))
        last = await env.step(assistant("Amber again."))
        evaluation = await env.evaluate()

    def said(seen: Observation) -> str:
        return "\n".join(each.text for each in seen.messages)

    assert "Keep the word amber" in said(first) and did.messages[-1].role == "tool"
    assert "Which word was it?" in said(same) and FRESH not in same.attributes
    assert "Which word is in notes.md?" in said(new) and new.attributes == {FRESH: True}
    assert "Keep the word" not in said(new), "a new session knows nothing of the others"
    assert "amber" in said(read_it) and last.done and evaluation.score == 1.0
