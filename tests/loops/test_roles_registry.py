"""Roles by name, how they ask a model, and the ports of environments they stand on, through real hosts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import metadata
from pathlib import Path

import msgspec
import pytest

from silva.envs import EnvError, HostPool, Registry
from silva.envs.handle import EnvironmentHandle
from silva.envs.protocol import Goal
from silva.envs.synthesis import MOST_ACTIONS, loops_cut
from silva.errors import UsageError
from silva.loops.roles import Asker, Asks, Implementation, RoleError, make, registry
from silva.models.scripted import Script, ScriptedServer
from silva.tree import assistant, call

HERE = Path(__file__).parent


@asynccontextmanager
async def shelf(kind: str = "Shelf") -> AsyncIterator[tuple[EnvironmentHandle, list]]:
    async with HostPool(Registry.load().entry(f"{HERE / 'shelf.py'}:{kind}")) as pool, pool.lease() as env:
        yield env, await pool.tasks()


def acts(*names: str):
    return [assistant("", call("act", {"action": name})) for name in names]


async def test_what_was_brought_about_is_a_task_that_the_same_actions_solve():
    async with shelf() as (env, tasks):
        assert env.offers == {"synthesis", "hindsight", "actions", "complete"}
        goals = await env.goals(tasks[1])
        assert [goal.words for goal in goals][:2] == ["stand at cell 0", "stand at cell 1"]
        walked = acts("right", "left", "right", "right", "drop", "take", "right")
        found = {each.goal.words: each for each in await env.achieved(tasks[1], walked)}
        assert set(found) == {"stand at cell 1", "stand at cell 2", "stand at cell 3", "hold the cup"}
        held = found["hold the cup"]
        assert held.turn == 6 and held.kept == (2, 3, 5)
        made = await env.task(tasks[1], held.goal)
        await env.reset(made)
        for number in held.kept:
            seen = await env.step(walked[number])
        assert seen.done and (await env.evaluate()).success
        assert len(await env.actions()) == 3


async def test_environments_without_ports_and_those_that_break_them_are_told_in_one_line():
    async with shelf("Plain") as (env, tasks):
        assert env.offers == frozenset()
        for asked in (env.goals(tasks[0]), env.achieved(tasks[0], acts("left")), env.actions()):
            with pytest.raises(UsageError, match="Plain offers no"):
                await asked
        assert not env.broken
    async with shelf() as (env, tasks):
        with pytest.raises(UsageError, match="too many to look back on"):
            await env.achieved(tasks[0], acts("left") * (MOST_ACTIONS + 1))
        with pytest.raises(UsageError, match="no goal of a shelf"):
            await env.task(tasks[0], Goal(words="fly", data={"fly": 1}))
    for seed, wrong in ((0, "5000 characters"), (1, "holds a str, not a Goal")):
        async with shelf("Careless") as (env, tasks):
            with pytest.raises(EnvError, match=wrong):
                await env.goals(tasks[seed])
    async with shelf("Careless") as (env, tasks):
        with pytest.raises(EnvError, match="at turn 2 of 1"):
            await env.achieved(tasks[0], acts("left"))


def test_loops_are_cut_at_the_last_time_a_state_was_there():
    assert loops_cut("abcbad") == (4,)
    assert loops_cut("abcd") == (0, 1, 2)
    assert loops_cut("aaab") == (2,)
    assert loops_cut("aba") == ()


def test_an_unknown_role_name_or_option_is_one_line_with_what_is_known(monkeypatch):
    class Mine(Implementation):
        """One that a package brings."""

        role, name, Options = "writer", "mine", Asks

    monkeypatch.setattr(registry, "test_point", Mine, raising=False)
    points = [
        metadata.EntryPoint("writer.mine", "silva.loops.roles.registry:test_point", registry.GROUP),
        metadata.EntryPoint("writer.other", "silva.loops.roles.registry:test_point", registry.GROUP),
        metadata.EntryPoint("writer.gone", "no_such_module:Thing", registry.GROUP),
    ]
    monkeypatch.setattr(registry.metadata, "entry_points", lambda group: points)
    caches = (registry._all, registry._broken, registry._loaded)
    for each in caches:
        each.cache_clear()
    try:
        assert make("writer", "mine", {"model": "local"}).options.model == "local"
        for role, name, options, told in (
            ("painter", "x", {}, "role 'painter' is not known; there are verifier, explorer"),
            ("writer", "mime", {}, r"writer 'mime' is not known; did you mean mine\?"),
            ("writer", "mine", {"modle": "x"}, "writer mine: modle: Extra inputs are not permitted"),
            ("writer", "gone", {}, "writer gone: no_such_module:Thing cannot be loaded: ModuleNotFoundError"),
            ("writer", "other", {}, "calls itself writer.mine"),
        ):
            with pytest.raises(UsageError, match=told):
                make(role, name, options)
    finally:
        for each in caches:
            each.cache_clear()


class Thing(msgspec.Struct):
    """What is asked for."""

    words: str


async def test_an_answer_is_read_strictly_asked_for_once_more_and_counted_either_way():
    script = Script(function="roles_replies.py:reply", folder=str(HERE))
    with ScriptedServer(script) as server:
        asks = Asks(model=f"{server.url}#scripted", input_price=1e6)
        async with Asker("writer", "endpoint", asks) as asker:
            answer = await asker.ask("Write {what}: JSON.", {"what": "<b></material> {why}"}, Thing)
            assert answer.value.words == "a" and answer.acted.role == "writer" and len(answer.acted.prompt) == 16
            assert answer.acted.usd == pytest.approx(answer.acted.prompt_tokens) and answer.acted.usd > 0
            with pytest.raises(RoleError, match=r"gave no usable answer, asked twice: .*words") as told:
                await asker.ask("{what}", {"what": "hopeless"}, Thing)
            spent = answer.acted.prompt_tokens + told.value.acted.prompt_tokens
            assert told.value.acted.completion_tokens > 0 and asker.spent.prompt_tokens == spent
    with pytest.raises(UsageError, match="name a model to ask"):
        Asker("writer", "endpoint", Asks())
