"""Environments that raise, hang, die, flood memory, print, return garbage: one line, its boundary, and others go on."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from silva.envs import EnvError, HostPool, Registry
from silva.errors import UsageError
from silva.tree import Boundary, Task, assistant

ENVIRONMENT, INFRASTRUCTURE = Boundary.ENVIRONMENT, Boundary.INFRASTRUCTURE


def task(**deeds: str) -> Task:
    return Task(id="rogue/0", env="rogue", data=deeds)


async def run(env, **deeds):
    await env.reset(task(**deeds), 0)
    await env.step(assistant("go on"))
    return await env.evaluate()


async def fails(pool, **deeds) -> EnvError:
    async with pool.lease() as env:
        with pytest.raises(EnvError) as caught:
            await run(env, **deeds)
        assert env.broken
        with pytest.raises(EnvError) as again:  # a broken instance stays broken
            await env.evaluate()
        assert (again.value.kind, str(again.value)) == (caught.value.kind, str(caught.value))
    assert "\n" not in str(caught.value)
    failure = caught.value.failure()
    assert (failure.code, failure.boundary) == (caught.value.kind, caught.value.boundary)
    return caught.value


@pytest.mark.parametrize("where", ["reset", "step", "evaluate"])
@pytest.mark.parametrize(
    "deed, code, says",
    [
        ("raise", "env.raised", "RuntimeError: the wall fell down (rogue.py:"),
        ("exit", "env.raised", "SystemExit: 3"),
        ("usage", "env.raised", "no such corner"),
        ("garbage", "env.garbage", "returned dict, not"),
        ("unencodable", "env.garbage", ""),
    ],
)
async def test_a_broken_call_costs_only_its_instance(rogue, where, deed, code, says):
    async with rogue() as pool, pool.lease() as neighbour:
        before = await neighbour.reset(task(), 0)
        error = await fails(pool, **{where: deed})
        assert (error.kind, error.boundary, error.retryable) == (code, ENVIRONMENT, False)
        assert where in str(error) and says in str(error)
        assert (await neighbour.reset(task(), 0)) == before  # the same process still
        async with pool.lease() as env:
            assert (await run(env)).score == 0.5
        assert pool.stats().discarded == 1
        assert pool.stats().restarts == 0


@pytest.mark.parametrize("deed", ["shape", "huge"])
async def test_a_record_of_the_wrong_shape_or_size_is_garbage(rogue, deed):
    async with rogue() as pool:
        error = await fails(pool, step=deed)
        assert error.kind == "env.garbage"
        async with pool.lease() as env:
            await run(env)


async def test_the_step_that_ends_an_episode_reports_a_raising_evaluate(rogue):
    async with rogue() as pool, pool.lease() as env:
        await env.reset(task(evaluate="raise"), 0)
        with pytest.raises(EnvError, match="the wall fell down"):
            await env.step(assistant("end"))


async def test_a_hang_kills_the_host_and_others_are_told_so(rogue):
    async with rogue(step_timeout=0.3) as pool, pool.lease() as hung, pool.lease() as waiting, pool.lease() as quiet:
        first = await hung.reset(task(step="hang"), 0)
        await waiting.reset(task(), 0)
        await quiet.reset(task(), 0)
        results = await asyncio.gather(hung.step(assistant("x")), waiting.step(assistant("x")), return_exceptions=True)
        culprit, victim = results
        assert isinstance(culprit, EnvError) and (culprit.kind, culprit.boundary) == ("env.timeout", ENVIRONMENT)
        assert "step took longer than 0.3 s" in str(culprit)
        assert isinstance(victim, EnvError) and (victim.kind, victim.boundary) == ("host.died", INFRASTRUCTURE)
        assert victim.retryable
        with pytest.raises(EnvError, match="step did not return in"):
            await quiet.step(assistant("x"))
        async with pool.lease() as env:
            assert (await env.reset(task(), 0)).messages != first.messages  # another process
        assert pool.stats().restarts == 1


async def test_waiting_for_ever_ends_only_the_instance(rogue):
    async with rogue(step_timeout=0.3) as pool, pool.lease() as neighbour:
        await neighbour.reset(task(), 0)
        error = await fails(pool, step="await")
        assert (error.kind, error.boundary) == ("env.timeout", ENVIRONMENT)
        await neighbour.step(assistant("x"))
        assert pool.stats().restarts == 0


async def test_a_queue_of_slow_steps_is_no_hang(rogue):
    async with rogue(step_timeout=0.5) as pool:

        async def one():
            async with pool.lease() as env:
                await env.reset(task(step="slow"), 0)
                await env.step(assistant("x"))

        await asyncio.gather(*(one() for _ in range(6)))  # 1.8 s of work in one line
        assert pool.stats().failures == {}


async def test_threaded_environments_do_not_block_each_other(rogue):
    async with rogue("Threaded", step_timeout=0.4) as pool, pool.lease() as slow, pool.lease() as quick:
        await slow.reset(task(step="hang"), 0)
        await quick.reset(task(), 0)
        hung = asyncio.ensure_future(slow.step(assistant("x")))
        observation = await quick.step(assistant("x"))
        assert observation.messages[0].text == "thread"
        with pytest.raises(EnvError, match="took longer") as caught:
            await hung
        assert caught.value.kind == "env.timeout"
        with pytest.raises(EnvError, match="hung") as caught:
            await quick.step(assistant("x"))
        assert caught.value.kind == "host.died"


@pytest.mark.parametrize("where", ["reset", "step", "evaluate"])
async def test_a_dying_environment_is_infrastructure_and_the_host_comes_back(rogue, where):
    async with rogue() as pool:
        error = await fails(pool, **{where: "die"})
        assert (error.kind, error.boundary, error.retryable) == ("host.died", INFRASTRUCTURE, True)
        assert "exit status 9; last words: my last words" in str(error)
        async with pool.lease() as env:
            assert (await run(env)).score == 0.5


async def test_a_host_killed_from_outside_comes_back(rogue):
    async with rogue(hosts=2, instances_per_host=1) as pool, pool.lease() as one, pool.lease() as two:
        pid = int((await one.reset(task(), 0)).messages[0].text.split()[-1])
        await two.reset(task(), 0)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(EnvError, match="killed by SIGKILL") as caught:
            while True:
                await one.step(assistant("x"))
        assert caught.value.kind == "host.died"
        await two.step(assistant("x"))


async def test_a_memory_flood_is_told_as_such(rogue):
    async with rogue(memory_limit_mb=300) as pool:
        error = await fails(pool, step="flood")
        assert (error.kind, error.boundary) == ("env.memory", INFRASTRUCTURE)
        assert "300 MB" in str(error)
        async with pool.lease() as env:
            await run(env)


async def test_printing_and_reading_stdin_do_not_touch_the_channel(rogue):
    async with rogue() as pool, pool.lease() as env:
        for deed in ("reset", "step", "evaluate"):
            assert (await run(env, **{deed: "print"})).score == 0.5


async def test_hosts_that_only_die_are_given_up(rogue, monkeypatch):
    monkeypatch.setattr("silva.envs.pool.MOST_DEATHS", 3)
    async with rogue() as pool:
        kinds = []
        for _ in range(4):
            try:
                async with pool.lease() as env:
                    await run(env, step="die")
            except EnvError as error:
                kinds.append((error.kind, error.retryable))
        assert kinds == [("host.died", True)] * 3 + [("host.spawn", False)]


@pytest.mark.parametrize(
    "target, says",
    [
        ("{folder}/broken.py:Thing", "ZeroDivisionError: division by zero (broken.py:2)"),
        ("{folder}/leaves.py:Thing", "exit status 5; last words: I am leaving"),
        ("{folder}/broken.py:Absent", "ZeroDivisionError"),
        ("no.such.module:Thing", "ModuleNotFoundError: No module named 'no'"),
        ("json:Absent", "AttributeError"),
    ],
)
async def test_a_host_that_cannot_start_says_why(tmp_path, target, says):
    from silva.envs import HostPool, Registry

    (tmp_path / "broken.py").write_text("\n1 / 0\n")
    (tmp_path / "leaves.py").write_text("import os\nos.write(2, b'I am leaving\\n')\nos._exit(5)\n")
    entry = Registry.load().entry(target.format(folder=tmp_path))
    with pytest.raises(EnvError) as caught:
        async with HostPool(entry):
            pass
    assert caught.value.kind == "host.spawn"
    assert says in str(caught.value) and "\n" not in str(caught.value)


async def test_a_class_without_capabilities_says_so(rogue):
    with pytest.raises(EnvError, match="Undeclared declares no capabilities"):
        async with rogue("Undeclared"):
            pass


async def test_a_cancelled_call_discards_the_instance(rogue):
    async with rogue() as pool:
        async with pool.lease() as env:
            await env.reset(task(step="await"), 0)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(env.step(assistant("x")), 0.1)
            assert env.broken
        assert pool.stats().discarded == 1
        async with pool.lease() as env:
            await run(env)


async def test_an_environment_without_a_policy_is_a_usage_error(rogue):
    async with rogue() as pool, pool.lease() as env:
        await env.reset(task(), 0)
        with pytest.raises(UsageError, match="has no expert policy"):
            await env.expert()
        assert not env.broken


async def test_tasks_that_cannot_be_listed(rogue):
    async with rogue() as pool:
        with pytest.raises(UsageError, match="give a limit"):
            await pool.tasks("endless")
        with pytest.raises(EnvError, match="not a Task"):
            await pool.tasks("wrong")
        with pytest.raises(UsageError, match="no task 'rogue/7x'; near: rogue/7"):
            await pool.tasks(ids=["rogue/3", "rogue/7x"])


async def test_hosts_end_when_their_parent_is_killed(tmp_path, rogue_entry):
    script = f"""
        import asyncio, os
        from silva.envs import HostPool, Registry
        from silva.tree import Task
        async def main():
            async with HostPool(Registry.load().entry({rogue_entry.target!r})) as pool, pool.lease() as env:
                text = (await env.reset(Task(id="rogue/0", env="rogue", data={{"step": "hang"}}), 0)).messages[0].text
                print(text.split()[-1], flush=True)
                from silva.tree import assistant
                await env.step(assistant("x"))
        asyncio.run(main())
    """
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ) as parent:  # noqa: ASYNC220
        assert parent.stdout is not None
        host = int(parent.stdout.readline())
        os.kill(host, 0)
        parent.kill()
    for _ in range(500):
        try:
            os.kill(host, 0)
        except ProcessLookupError:
            return
        with open(f"/proc/{host}/stat") as stat:  # noqa: PTH123, ASYNC230
            if stat.read().split()[2] == "Z":  # dead; in a container without an init nobody reaps it
                return
        await asyncio.sleep(0.01)
    os.kill(host, signal.SIGKILL)
    pytest.fail("the host outlived its parent")


@pytest.mark.parametrize("mode", ["inline", "process"])
async def test_an_option_that_an_environment_does_not_have_is_named(mode):
    with pytest.raises(UsageError, match=r"arithmetic: no option level; there are: none$"):
        await HostPool(Registry.load().entry("arithmetic"), mode=mode, options={"level": 2}).__aenter__()
