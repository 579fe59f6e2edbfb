"""Tasks of one run that have one id: nothing of either is lost, and runs without such keep their names."""

from __future__ import annotations

from pathlib import Path

from silva.envs import HostPool, Registry
from silva.lake import Lake
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.replay import replay
from silva.rollout.slots import slots
from silva.rollout.tasks import kept_apart
from silva.tree import Task, tree_id

HERE = Path(__file__).parent
ENVS = tuple(f"{HERE / 'same_ids.py'}:{name}" for name in ("One", "Two"))


async def test_two_environments_whose_tasks_have_the_same_ids_lose_nothing(tmp_path: Path) -> None:
    settings = RolloutConfig.model_validate(
        {
            "run": "r",
            "env": ENVS,
            "lake": str(tmp_path / "lake"),
            "policy": "expert",
            "group": 2,
            "hosts": {"inline": True},
        }
    )
    result = await run_rollout(settings)
    assert len(result.trajectories) == len({each.id for each in result.trajectories}) == 12
    assert not [each.outcome.failure for each in result.trajectories if each.outcome.failure]
    assert (await run_rollout(settings, resume=True)).session_episodes == 0
    with Lake.open(settings.lake, mode="read") as lake:
        stored, tasks = lake.trajectories(run_id="r"), {each.id: each for each in lake.tasks()}
        assert len(stored) == 12 and len(tasks) == 6
        for each in stored:
            said = [node.message.text for node in lake.walk(each)]
            assert said == [tasks[each.task_id].instruction, each.env, f"heard by {each.env}"]
        again = next(each for each in stored if each.env == "two")
        walk = lake.walk(again)
    assert again.tree_id == tree_id("r", again.task_id) and tasks[again.task_id].given.id in "012"
    async with HostPool(Registry.load().entry(ENVS[1]), mode="inline") as pool, pool.lease() as env:
        assert (await replay(env, tasks[again.task_id], again.seed, walk)).divergence is None


def test_only_what_collides_is_renamed_and_the_same_way_each_time() -> None:
    a, b, other = Task(id="1", env="x"), Task(id="2", env="x"), Task(id="1", env="x", instruction="other")
    assert kept_apart([("x", a), ("x", b)]) == [("x", a), ("x", b)]
    assert kept_apart([("x", a), ("x", b), ("x", a)]) == [("x", a), ("x", b)], "asked for twice, it is one task"
    (_, first), (_, second), (_, third) = kept_apart([("x", a), ("x", other), ("y", a)])
    assert first == a and second.given == other and third.given == a
    assert len({first.id, second.id, third.id}) == 3
    assert kept_apart([("x", a), ("y", a), ("x", other)])[1][1].id == third.id
    assert slots("r", [("x", a)], 1, 0)[0].tree_id == tree_id("r", "1")
