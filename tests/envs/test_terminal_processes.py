"""The terminal gym whose snapshots hold what runs: sessions, variables and programs go on where one goes back to."""

from __future__ import annotations

import pytest

from silva.envs import HostPool, Registry
from silva.envs.gyms.terminal.environment import Terminal
from silva.envs.state import EXACT, FILES
from silva.errors import MissingError
from silva.sandbox import criu_trial
from silva.tree import Task, assistant, call

pytestmark = pytest.mark.slow
WHY = criu_trial.trial()
CRIU = pytest.mark.skipif(bool(WHY), reason=WHY)


async def do(env, tool: str, **arguments) -> str:
    (answer,) = (await env.step(assistant("", call(tool, arguments)))).messages
    return answer.text


def task(name: str = "access-log") -> Task:
    return Task(id=f"terminal/{name}", env="terminal")


@CRIU
async def test_sessions_and_what_they_run_go_on_in_every_branch(tmp_path):
    first = Terminal(snapshots=str(tmp_path), processes=True)
    branches = [Terminal(snapshots=str(tmp_path), processes=True) for _ in range(2)]
    try:
        await first.reset(task(), 0)
        assert await do(first, "session_run", command="cd /tmp; n=7; twice() { echo $(($1 * 2)); }") == "[exit code 0]"
        await do(first, "session_create", session="python")
        assert "still running" in await do(first, "session_run", session="python", command="python3 -iq", wait=1)
        assert ">>> " in await do(first, "session_input", session="python", text="k = 40")
        await do(first, "session_create", session="slow")
        await do(first, "session_start", session="slow", command="for i in {1..6}; do sleep 0.5; echo step $i; done")
        kept = await first.snapshot()
        assert await first.fidelity(kept) == EXACT
        await do(first, "session_run", command="n=8")
        for number, env in enumerate(branches):
            await env.restore(kept)
            assert await do(env, "session_run", command="pwd; twice $n") == "/tmp\n14\n[exit code 0]"
            assert f"{41 + number}" in await do(env, "session_input", session="python", text=f"k + {1 + number}")
            assert "step 6\n[exit code 0]" in await do(env, "session_output", session="slow", wait=20)
        assert "\n8\n" in f"\n{await do(first, 'session_run', command='echo $n')}"
        await first.restore(kept)
        assert await do(first, "session_run", command="twice $n") == "14\n[exit code 0]"
        assert (await first.evaluate()).score == 0
    finally:
        for env in (first, *branches):
            await env.close()


@CRIU
async def test_snapshots_say_how_much_they_hold(tmp_path):
    entry = Registry.load().entry("terminal")
    try:
        pool = HostPool(entry, options={"snapshots": str(tmp_path), "processes": True})
    except MissingError as error:
        pytest.skip(str(error))
    async with pool as hosts, hosts.lease() as env:
        await env.reset(task(), 0)
        await do(env, "session_run", command="n=7")
        assert (await env.snapshot()).fidelity == EXACT
        plain = Terminal(snapshots=str(tmp_path))
        try:
            kept = (await env.snapshot()).id
            notice = await plain.restore(kept)
            said = await do(plain, "session_run", command="echo $n.")
            assert notice.startswith("[the sessions begin anew, without their variables: main in") and said[0] == "."
            assert await plain.fidelity(await plain.snapshot()) == FILES
        finally:
            await plain.close()


async def test_asked_for_where_it_cannot_be_had_is_refused_in_a_line(tmp_path):
    env = Terminal(snapshots=str(tmp_path), processes=True, backend="process")
    try:
        with pytest.raises(MissingError, match=r"^terminal: processes=true: what runs cannot be kept here: .+"):
            await env.reset(task(), 0)
    finally:
        await env.close()
