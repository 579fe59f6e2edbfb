"""The engine end to end: real hosts, a real model server on loopback, a real lake."""

import asyncio
from pathlib import Path

import pytest

from silva.errors import Exit, MissingError, UnreachableError, UsageError
from silva.lake import Lake
from silva.models.scripted import Answer, Fault, Rule, Script, ScriptedServer, When
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.run import Hooks
from silva.tree import Author, Boundary, Status, groups

HERE = Path(__file__).parent
SOLVER = Script(function="solver.py:reply", folder=str(HERE))


def config(tmp_path, **fields):
    fields = {"run": "r", "env": ("arithmetic",), "lake": str(tmp_path / "lake"), "pool": 8, **fields}
    return RolloutConfig.model_validate(fields)


def breaking(tmp_path, task, **fields):
    name = f"{HERE / 'breaking.py'}:Breaking"
    options = {name: {"marker": str(tmp_path / "marker")}}
    return config(
        tmp_path, env=(name,), policy="expert", tasks={"ids": [f"breaking/{task}"]}, options=options, **fields
    )


async def one(settings, **arguments):
    result = await run_rollout(settings, **arguments)
    (trajectory,) = [t for t in result.trajectories if not t.superseded]
    return result, trajectory


async def test_every_turn_is_in_the_lake_and_scored_by_the_environment(tmp_path):
    async with ScriptedServer(SOLVER) as server:
        settings = config(tmp_path, model=f"{server.url}#scripted", group=2, tasks={"split": "chain", "limit": 12})
        result = await run_rollout(settings)
    assert result.remaining == 0 and len(result.trajectories) == 24
    lake = Lake.open(settings.lake, mode="read")
    stored = lake.trajectories(run_id="r")
    assert {t.id for t in stored} == {t.id for t in result.trajectories}
    for trajectory in stored:
        walk = lake.walk(trajectory)
        said = [node for node in walk if node.author is Author.POLICY]
        assert len(said) == trajectory.turns >= 3
        numbers = next(t for t in lake.tasks() if t.id == trajectory.task_id).data["numbers"]
        assert trajectory.outcome.success == (sum(numbers) % 5 != 0)
    assert len(lake.tree(stored[0].tree_id).leaves) == 2
    assert all(len(group.trajectories) == 2 for group in groups(stored))
    run = lake.run("r")
    assert run is not None and run.status == "finished" and run.lineage.code.startswith("silva ")


async def test_expert_and_null_bound_the_score_through_the_same_engine(tmp_path):
    expert = await run_rollout(config(tmp_path, run="e", policy="expert", tasks={"split": "chain", "limit": 6}))
    null = await run_rollout(config(tmp_path, run="n", policy="null", tasks={"split": "chain", "limit": 6}))
    assert [t.outcome.score for t in expert.trajectories] == [1.0] * 6
    assert [t.outcome.score for t in null.trajectories] == [0.0] * 6


async def test_siblings_of_a_group_share_their_seed(tmp_path):
    result = await run_rollout(config(tmp_path, policy="expert", group=3, tasks={"limit": 2}))
    for group in groups(result.trajectories):
        assert len({t.seed for t in group.trajectories}) == 1
    assert len({t.seed for t in result.trajectories}) == 2


async def test_an_environment_that_raises_fails_its_episode_alone(tmp_path):
    result, trajectory = await one(breaking(tmp_path, "raises"))
    failure = trajectory.outcome.failure
    assert trajectory.outcome.status is Status.FAILED and trajectory.outcome.score is None
    assert failure.boundary is Boundary.ENVIRONMENT and "the floor gave way" in failure.message
    assert trajectory.turns == 1
    assert result.exit_code is Exit.INCOMPLETE


async def test_a_dead_host_is_retried_with_a_fresh_environment(tmp_path):
    result, trajectory = await one(breaking(tmp_path, "dies-once"))
    assert trajectory.outcome.success and trajectory.attempt == 1
    first = next(t for t in result.trajectories if t.superseded)
    assert first.outcome.failure.boundary is Boundary.INFRASTRUCTURE
    assert result.exit_code is Exit.OK


async def test_retries_are_bounded(tmp_path):
    result, trajectory = await one(breaking(tmp_path, "dies", retries=1))
    assert trajectory.attempt == 1 and trajectory.outcome.failure.boundary is Boundary.INFRASTRUCTURE
    assert len(result.trajectories) == 2


async def test_a_turn_limit_truncates_and_still_scores(tmp_path):
    _, trajectory = await one(breaking(tmp_path, "endless", budget={"turns": 3}))
    assert trajectory.outcome.status is Status.TRUNCATED and trajectory.turns == 3
    assert trajectory.outcome.score == 1.0


@pytest.mark.parametrize(
    ("budget", "line"),
    [
        ({"tokens": 300}, "budget of 300 tokens"),
        ({"usd": 0.0003, "price": {"input": 1.0, "output": 1.0}}, "budget of 0.0003 usd"),
    ],
)
async def test_a_runs_budget_stops_it_and_resume_goes_on(tmp_path, budget, line):
    async with ScriptedServer(SOLVER) as server:
        fields = {"model": f"{server.url}#scripted", "pool": 1, "tasks": {"limit": 10}}
        stopped = await run_rollout(config(tmp_path, budget=budget, **fields))
        assert 0 < len(stopped.trajectories) < 10 and line in stopped.stopped
        assert stopped.exit_code is Exit.INCOMPLETE
        whole = await run_rollout(config(tmp_path, **fields), resume=True)
        asked = server.requests
    assert whole.remaining == 0 and len(whole.trajectories) == 10
    assert asked == 10


def test_a_budget_in_dollars_without_a_price_bounds_nothing_and_is_refused(tmp_path):
    with pytest.raises(ValueError, match="what the model costs is not known"):
        config(tmp_path, budget={"usd": 5.0})


async def test_a_model_that_refuses_is_filed_under_the_model(tmp_path):
    script = Script(rules=(Rule(fault=Fault(kind="status", status=400, message="tools are not supported here")),))
    async with ScriptedServer(script) as server:
        settings = config(tmp_path, model=f"{server.url}#scripted", tasks={"limit": 1})
        with pytest.raises(UnreachableError, match="tools are not supported here"):
            await run_rollout(settings)
    (trajectory,) = Lake.open(settings.lake, mode="read").trajectories(run_id="r")
    failure = trajectory.outcome.failure
    assert failure.boundary is Boundary.MODEL and "tools are not supported here" in failure.message


async def test_a_run_whose_model_is_gone_stops_early_in_one_line_and_can_be_mended(tmp_path):
    fields = {"tasks": {"limit": 60}, "deadlines": {"model": 2.0}}
    with pytest.raises(UnreachableError, match="--resume --retry-failed"):
        await run_rollout(config(tmp_path, model="http://127.0.0.1:9/v1#scripted", **fields))
    async with ScriptedServer(SOLVER) as server:
        settings = config(tmp_path, model=f"{server.url}#scripted", **fields)
        result = await run_rollout(settings, resume=True, hooks=Hooks(retry=frozenset({"model"})))
    assert result.remaining == 0 and result.exit_code is Exit.OK
    last = [group.trajectories[0] for group in groups(result.trajectories)]
    assert len(last) == 60 and all(t.outcome.status is Status.COMPLETED for t in last)


async def test_a_hanging_model_costs_its_deadline_and_no_more(tmp_path):
    script = Script(rules=(Rule(when=When(last="7"), fault=Fault(kind="hang")), Rule(reply=Answer(text="1"))))
    async with ScriptedServer(script) as server:
        settings = config(tmp_path, model=f"{server.url}#scripted", deadlines={"model": 0.5}, tasks={"limit": 8})
        result = await run_rollout(settings)
    kinds = {t.outcome.failure.code for t in result.trajectories if t.outcome.failure}
    assert kinds == {"model.timeout"}
    assert any(t.outcome.status is Status.COMPLETED for t in result.trajectories)


async def test_a_name_already_used_and_nothing_to_resume_are_refused(tmp_path):
    settings = config(tmp_path, policy="expert", tasks={"limit": 1})
    with pytest.raises(UsageError, match="nothing to resume"):
        await run_rollout(settings, resume=True)
    await run_rollout(settings)
    with pytest.raises(UsageError, match="already in lake"):
        await run_rollout(settings)
    with pytest.raises(UsageError, match="another configuration"):
        await run_rollout(config(tmp_path, policy="expert", tasks={"limit": 2}), resume=True)
    again = await run_rollout(settings, resume=True)
    assert again.session_episodes == 0 and len(again.trajectories) == 1


async def test_what_cannot_be_had_is_said_before_anything_runs(tmp_path):
    with pytest.raises(UsageError, match="arithmetic"):
        await run_rollout(config(tmp_path, env=("arithmetik",), policy="expert"))
    with pytest.raises(UsageError, match="no-such-model"):
        await run_rollout(config(tmp_path, model="no-such-model", tasks={"limit": 1}))
    with pytest.raises(UsageError, match="arithmetic/test/99999"):
        await run_rollout(config(tmp_path, policy="expert", tasks={"ids": ["arithmetic/test/99999"]}))
    with pytest.raises(UsageError, match="no split"):
        await run_rollout(config(tmp_path, policy="expert", tasks={"split": "nonsense"}))
    empty = tmp_path / "tasks.jsonl"
    empty.write_text("")
    with pytest.raises(UsageError, match=r"tasks\.jsonl"):
        await run_rollout(config(tmp_path, policy="expert", tasks={"file": str(empty)}))
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"id": "arithmetic/x", "env": "arithmetic"}\n{"id": 3}\n')
    with pytest.raises(UsageError, match="line 2"):
        await run_rollout(config(tmp_path, policy="expert", tasks={"file": str(broken)}))
    assert not isinstance(MissingError("x"), UsageError)


async def test_a_stop_keeps_what_was_acknowledged_and_resume_asks_for_the_rest_only(tmp_path):
    slow = Script(function="solver.py:reply", folder=str(HERE), latency=0.02)
    async with ScriptedServer(slow) as server:
        settings = config(tmp_path, model=f"{server.url}#scripted", pool=6, tasks={"split": "chain", "limit": 12})
        started: list = []
        hooks = Hooks(on_start=lambda scheduler, ledger, total: started.append(scheduler))
        running = asyncio.ensure_future(run_rollout(settings, hooks=hooks))
        while server.requests < 20:  # noqa: ASYNC110 - what is waited for happens in another thread
            await asyncio.sleep(0.005)
        started[0].stop()
        stopped = await running
        assert stopped.remaining > 0 and stopped.exit_code is Exit.INTERRUPTED
        lake = Lake.open(settings.lake, mode="read")
        kept = sum(node.author is Author.POLICY for node in lake.nodes(run_id="r"))
        before = server.requests
        result = await run_rollout(settings, resume=True)
        asked = server.requests - before
    turns = sum(t.turns for t in result.trajectories)
    assert result.remaining == 0 and len(result.trajectories) == 12
    assert asked == turns - kept
    nodes = Lake.open(settings.lake, mode="read").nodes(run_id="r")
    assert len({n.id for n in nodes}) == len(nodes)
