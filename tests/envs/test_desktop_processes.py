"""The desktop gym whose snapshots hold what runs: windows, and what is in them unsaved, are there in every branch."""

from __future__ import annotations

import asyncio

import pytest

from silva.envs import HostPool, Registry
from silva.envs.gyms.desktop import packages
from silva.envs.gyms.desktop.view import desktops
from silva.envs.install import interpreter
from silva.envs.state import EXACT
from silva.errors import MissingError
from silva.sandbox import criu_trial
from silva.tree import assistant, call

WHY = criu_trial.trial()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(WHY), reason=WHY)]


@pytest.fixture
def pool(tmp_path):
    entry = Registry.load().entry("desktop")
    try:
        interpreter(entry)
        packages.check()
    except MissingError as error:
        pytest.skip(str(error))
    options = {"snapshots": str(tmp_path / "kept"), "processes": True}
    return lambda: HostPool(entry, step_timeout=300.0, options=options)


async def begun(hosts: HostPool, env, name: str):
    (task,) = await hosts.tasks(ids=[f"desktop/{name}"])
    return await env.reset(task, 0)


async def do(env, tool: str, **arguments) -> str:
    return (await env.step(assistant("", call(tool, arguments)))).messages[-1].text


async def finished(env) -> float:
    while not (await env.step(await env.expert())).done:
        pass
    return (await env.evaluate()).score


async def test_what_was_typed_and_not_saved_is_there_in_every_branch(pool):
    async with pool() as hosts, hosts.lease() as env, pool() as others:
        await begun(hosts, env, "editor-list")
        assert "rye milk" in await do(env, "typing", text="rye ")
        kept = await env.snapshot()
        assert kept.fidelity == EXACT
        assert "cold rye" in await do(env, "pyautogui", code="pyautogui.press('home'); pyautogui.write('cold ')")
        async with others.lease() as one, others.lease() as two:
            await asyncio.gather(one.restore(kept), two.restore(kept))
            assert len({each.sandbox for each in desktops() if each.task == "editor-list"}) >= 3
            for branch, word in ((one, "hot "), (two, "old ")):
                seen = await do(branch, "typing", text=word)
                assert f"rye {word}milk" in seen and "started anew" not in seen and "cold" not in seen
            again = await one.snapshot()  # and further down
            await two.restore(again)
            assert "rye hot milk" in await do(two, "wait", seconds=0.1)
        assert "cold rye" in await do(env, "wait", seconds=0.1)
        await env.restore(kept)
        seen = await do(env, "wait", seconds=0.1)
        assert "rye milk" in seen and "cold" not in seen


@pytest.mark.parametrize("name", ["calc-total", "files-invoices", "mail-answer"])
async def test_an_expert_goes_on_in_a_branch_from_the_middle(pool, name):
    async with pool() as hosts, hosts.lease() as env, pool() as others:
        await begun(hosts, env, name)
        for _ in range(2):
            await env.step(await env.expert())
        kept = await env.snapshot()
        assert kept.fidelity == EXACT
        async with others.lease() as branch:
            await branch.restore(kept)
            assert await finished(branch) == 1.0
        assert await finished(env) == 1.0


async def test_nothing_else_in_the_sandbox_can_take_the_drivers_place(pool):
    async with pool() as hosts, hosts.lease() as env:
        await begun(hosts, env, "editor-list")
        listener = (
            "import os, socket, time\n"
            "if os.fork() == 0:\n"
            "    for fd in range(3): os.close(fd)\n"
            "    while True:\n"
            "        try:\n"
            "            channel = socket.create_connection(('127.0.0.1', 7001), timeout=1)\n"
            "            channel.sendall((20).to_bytes(4, 'big') + b'{\"output\":\"c0ffee\"}  ')\n"
            "            time.sleep(3)\n"
            "        except OSError: time.sleep(0)\n"
        )
        await do(env, "pyautogui", code=listener)
        kept = await env.snapshot()
        assert "milk" in await do(env, "wait", seconds=0.1)
        await env.restore(kept)  # it is there as well
        assert "milk" in await do(env, "wait", seconds=0.1)
