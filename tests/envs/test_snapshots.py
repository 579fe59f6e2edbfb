"""The state of an environment leaves its instance and goes on in another as if nothing had happened, or is refused."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silva.envs import EnvError, HostPool, Registry
from silva.envs.gyms.arithmetic import Arithmetic
from silva.envs.state import pickled, unpickled
from silva.envs.wire import Captured
from silva.errors import MissingError
from silva.tree import Message, assistant, call

KEEPING = Path(__file__).with_name("keeping.py")
ADD_FIVE = assistant("", call("add", {"number": 5}))


def pool(kind: str, mode: Any = "inline", **options: Any) -> HostPool:
    name = f"{KEEPING}:{kind}" if kind[0].isupper() else kind
    return HostPool(Registry.load().entry(name), mode=mode, options=options)


async def refused(work: Any) -> str:
    with pytest.raises(EnvError) as caught:
        await work
    assert caught.value.kind == "env.snapshot" and "\n" not in str(caught.value)
    return str(caught.value)


async def test_state_goes_on_in_another_host_process() -> None:
    async with pool("arithmetic", "process") as here:
        (task,) = await here.tasks(split="chain", limit=1)
        async with here.lease() as env:
            await env.reset(task, 1)
            await env.step(await env.expert())
            kept = await env.snapshot()
            first = [await env.expert(), await env.step(ADD_FIVE), await env.evaluate()]
        async with pool("arithmetic", "process") as there, there.lease() as other:
            await other.restore(kept)
            assert [await other.expert(), await other.step(ADD_FIVE), await other.evaluate()] == first
            await other.restore(kept)  # once more: the first going on changed nothing in what was kept
            assert await other.expert() == first[0]
    assert kept.fidelity == "exact" and set(kept.versions) >= {"python", "silva", "source"}


async def test_state_of_other_versions_is_refused_by_name_and_the_instance_lives() -> None:
    async with pool("arithmetic") as hosts, hosts.lease() as env:
        (task,) = await hosts.tasks(split="chain", limit=1)
        await env.reset(task, 1)
        kept = await env.snapshot()
        said = await refused(env.restore(Captured("state", "exact", data=kept.data, versions={"python": "2.7"})))
        assert "python was 2.7" in said and "replay" in said
        said = await refused(env.restore(Captured("state", "exact", data=kept.data[:-9], versions=kept.versions)))
        assert "damaged" in said
        other = pickle.dumps("no environment")
        said = await refused(env.restore(Captured("state", "exact", data=other, versions=kept.versions)))
        assert "str" in said
        assert not env.broken
        assert (await env.step(ADD_FIVE)).messages[0].text == "total 5"


@pytest.mark.parametrize(("kind", "why"), [("Replayed", "restored by replay"), ("Locked", "cannot be kept")])
async def test_what_cannot_be_kept_is_said_and_the_episode_goes_on(kind: str, why: str) -> None:
    async with pool(kind) as hosts, hosts.lease() as env:
        (task,) = await hosts.tasks()
        await env.reset(task, 0)
        assert why in await refused(env.snapshot())
        assert (await env.step(assistant("on"))).messages[0].text == "step 1"


@pytest.mark.parametrize("kind", ["Files", "Shelves"])
async def test_environment_that_keeps_itself_is_asked_by_id(tmp_path: Path, kind: str) -> None:
    async with pool(kind, folder=str(tmp_path)) as hosts, hosts.lease() as env, hosts.lease() as other:
        (task,) = await hosts.tasks()
        await env.reset(task, 0)
        await env.step(assistant("on"))
        kept = await env.snapshot()
        assert (kept.kind, kept.fidelity, kept.data) == ("own", "files+replay", b"")
        await other.restore(kept)  # was never reset
        assert (await other.step(assistant("on"))).messages[0].text == "step 2"
        (tmp_path / kept.id).unlink()
        assert "is gone" in await refused(other.restore(kept))
        assert not other.broken


@given(st.lists(st.one_of(st.integers(-9, 9), st.text(max_size=3)), max_size=6), st.data())
def test_pickled_instance_and_its_original_answer_alike(inputs: list[Any], data: st.DataObject) -> None:
    actions: list[Message] = [assistant("", call("add", {"number": value})) for value in inputs]
    at = data.draw(st.integers(0, len(actions)))

    async def play() -> None:
        task = next(each for each in Arithmetic.tasks("chain") if each.id.endswith("/7"))
        env = Arithmetic()
        await env.reset(task, 0)
        for action in actions[:at]:
            await env.step(action)
        copy = unpickled(Arithmetic, pickled(env))
        for action in [*actions[at:], assistant("12")]:
            assert await env.step(action) == await copy.step(action)
        assert await env.evaluate() == await copy.evaluate()

    asyncio.run(play())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "split"),
    [("babyai", "test"), ("textworld", "test"), ("bfcl", "test"), ("agentdojo", "test"), ("tau2-telecom", "small")],
)
async def test_gyms_go_on_from_their_state_as_if_nothing_happened(name: str, split: str) -> None:
    try:
        hosts = pool(name, "process")
    except MissingError as missing:
        pytest.skip(str(missing))
    async with hosts, hosts.lease() as env, hosts.lease() as other:
        (task,) = await hosts.tasks(split=split, limit=1)
        await env.reset(task, 3)
        done = False
        for _ in range(2):
            done = done or (await env.step(await env.expert())).done
        await other.restore(await env.snapshot())
        for _ in range(100):
            if done:
                break
            action = await env.expert()
            assert await other.expert() == action
            answer = await env.step(action)
            assert await other.step(action) == answer
            done = answer.done or answer.truncated
        verdict = await env.evaluate()
        assert await other.evaluate() == verdict and verdict.score == 1.0
