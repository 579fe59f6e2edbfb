"""Episodes of several agents: each with its own model, tools and walk in one tree; the environment says who is next."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from debate import Debate
from pydantic import ValidationError

from silva.cli.main import main
from silva.errors import UsageError
from silva.lake import Lake
from silva.models.scripted import Script, ScriptedServer
from silva.report import summarise
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.run import Hooks
from silva.train.lake_samples import collect
from silva.train.stretch import Reading
from silva.tree import Author, Boundary, Node, Trajectory, Tree, in_role, roles_of
from silva.tree.role import ORDER, ROLE, SAID, SPEAKER

HERE = Path(__file__).parent
DEBATE = "debate:Debate"


async def play(lake: Path, hooks: Hooks | None = None, resume: bool = False, **fields: Any) -> Any:
    """A debate in which the sides and the chair are models of their own."""
    async with AsyncExitStack() as stack:
        at: dict[str, str] = {}
        for name in ("seven", "nine", "chair"):
            script = Script(function=f"debate.py:{name}", folder=str(HERE))
            at[name] = f"{(await stack.enter_async_context(ScriptedServer(script))).url}#scripted"
        given: dict[str, Any] = {
            "run": "r",
            "env": (DEBATE,),
            "lake": str(lake),
            "model": at["seven"],
            "roles": {"contra": {"model": at["nine"]}, "chair": {"model": at["chair"]}},
            "tasks": {"limit": 1},
            "hosts": {"inline": True},
            "retries": 0,
            **fields,
        }
        return await run_rollout(RolloutConfig.model_validate(given), resume=resume, hooks=hooks or Hooks())


def read(lake: Path) -> tuple[list[Trajectory], Tree]:
    with Lake.open(lake, mode="read") as opened:
        ended = opened.trajectories(run_id="r")
        return ended, Tree(opened.nodes(run_id="r"))


def spoken(tree: Tree, trajectory: Trajectory, role: str) -> list[Node]:
    leaf = in_role(trajectory, role).leaf_id
    assert leaf is not None
    return list(tree.walk(leaf))


async def test_every_role_has_its_model_its_tools_and_its_walk_in_one_tree(tmp_path: Path) -> None:
    await play(tmp_path)
    (ended,), tree = read(tmp_path)
    roles = roles_of(ended)
    assert list(roles) == ["pro", "contra", "chair"] and ended.attributes[ROLE] == "pro"
    assert {name: (known["turns"], known["score"]) for name, known in roles.items()} == {
        "pro": (2, 0.0),
        "contra": (2, 1.0),
        "chair": (1, None),
    }
    walks = {role: spoken(tree, ended, role) for role in roles}
    taken = {role: [n for n in walk if n.author is Author.POLICY] for role, walk in walks.items()}
    assert [node.message.text for node in taken["pro"] + taken["contra"]] == ["7", "7", "9", "9"]
    assert [known["agent"] for known in roles.values()] == ["tools"] * 3
    assert [tool.name for tool in walks["chair"][0].tools or ()] == ["award"] and walks["pro"][0].tools == ()
    # The two sides open alike, so they share that; from there on each has its own.
    assert walks["pro"][:2] == walks["contra"][:2] and not {n.id for n in walks["pro"][2:]} & {
        n.id for n in walks["contra"]
    }
    order = sorted((node.attributes[ORDER], node.attributes[ROLE]) for each in taken.values() for node in each)
    assert order == [(1, "pro"), (2, "contra"), (3, "pro"), (4, "contra"), (5, "chair")]
    told = walks["pro"][3]
    assert (told.attributes[SPEAKER], told.attributes[SAID]) == ("contra", taken["contra"][0].id)
    assert len(tree) == len({node.id for walk in walks.values() for node in walk})
    assert ended.usage.prompt_tokens == sum(known["prompt_tokens"] for known in roles.values()) > 0
    assert [(row.role, row.turns) for row in summarise([ended]).roles] == [("pro", 2), ("contra", 2), ("chair", 1)]


@pytest.mark.parametrize("turn", [0, 1, 2, 3, 4])
async def test_an_episode_that_is_cut_off_goes_on_in_every_role(tmp_path: Path, turn: int) -> None:
    await play(tmp_path / "whole")
    asked = 0

    def begin(scheduler: Any, ledger: Any, total: int) -> None:
        step = Debate.step

        async def cut(self: Any, action: Any) -> Any:
            nonlocal asked
            asked += 1
            if asked == turn + 1:
                Debate.step = step
                scheduler.stop()
                await asyncio.sleep(60)
            return await step(self, action)

        Debate.step = cut

    await play(tmp_path / "cut", Hooks(on_start=begin))
    with Lake.open(tmp_path / "cut", mode="read") as opened:
        assert not opened.trajectories(run_id="r")
        before = {node.id for node in opened.nodes(run_id="r")}
    await play(tmp_path / "cut", resume=True)
    (ended,), tree = read(tmp_path / "cut")
    (whole,), alone = read(tmp_path / "whole")
    assert tree.fingerprint() == alone.fingerprint() and before <= {node.id for node in tree}
    assert {k: v["turns"] for k, v in roles_of(ended).items()} == {k: v["turns"] for k, v in roles_of(whole).items()}


async def test_any_role_trains_on_its_own_turns_alone(tmp_path: Path) -> None:
    await play(tmp_path, policy="expert", roles={}, renderer="scripted", model="local")
    (ended,), tree = read(tmp_path)
    with Lake.open(tmp_path, mode="read") as opened:
        for role in roles_of(ended):
            (sample,) = collect(opened, [in_role(ended, role)], Reading(logprobs="optional")).samples
            drawn = {n.id for n in spoken(tree, ended, role) if n.author is Author.POLICY}
            assert {action.node_id for action in sample.actions} == drawn
            assert int(sample.mask.sum()) == sum(action.stop - action.start for action in sample.actions) > 0
            score = roles_of(ended)[role]["score"]
            assert sample.reward == score or score is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"roles": {"judge": {"model": "expert"}}},
            "role judge: no environment of this run has it; there are chair",
        ),
        ({"roles": {"pro": {"model": "expert"}}}, "role pro: it is played by the run's own policy"),
        ({"env": ("arithmetic",), "roles": {"pro": {}}}, "there are none: its environments have one agent"),
        ({"agent": "program: true", "roles": {}}, "several agents (pro, contra, chair): a program cannot play there"),
    ],
)
async def test_a_role_that_cannot_be_played_is_refused_before_anything_runs(
    tmp_path: Path, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        await play(tmp_path, **fields)
    assert said in str(refused.value)


def test_roles_are_not_for_programs_or_ray() -> None:
    for fields in ({"agent": "program: true"}, {"on": "ray"}):
        with pytest.raises(ValidationError, match="roles: several agents"):
            RolloutConfig.model_validate({"env": "debate", "roles": {"chair": {}}, **fields})


async def test_an_environment_that_speaks_to_nobody_it_declared_is_told_so(tmp_path: Path) -> None:
    await play(tmp_path, env=("debate:Strays",))
    (ended,), _ = read(tmp_path)
    failure = ended.outcome.failure
    assert failure is not None and (failure.boundary, failure.code) == (Boundary.ENVIRONMENT, "env.role")


async def test_a_budget_of_tokens_is_for_all_roles_of_an_episode_together(tmp_path: Path) -> None:
    await play(tmp_path, budget={"episode_tokens": 60})
    (ended,), _ = read(tmp_path)
    failure = ended.outcome.failure
    assert failure is not None and failure.code == "budget.episode_tokens"
    used = [known["prompt_tokens"] + known["completion_tokens"] for known in roles_of(ended).values()]
    assert max(used) < 60 <= sum(used)


async def test_an_episode_of_several_agents_is_taken_again_in_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await play(tmp_path)
    (ended,), _ = read(tmp_path)
    monkeypatch.setenv("SILVA_LAKE", str(tmp_path))
    for command, code, said in (
        (["replay", ended.id], 0, "same: 5 turns"),
        (["replay", ended.id, "--env", "debate:Drifts"], 1, "diverged at turn 3, message 3: message differs"),
        (["replay", ended.id, "--env", "debate:Silences"], 1, "diverged at turn 2, message 0: role differs"),
        (["branch", str(ended.leaf_id), "--policy", "expert"], 2, "several agents acted in it"),
    ):
        with pytest.raises(SystemExit) as ending:
            await asyncio.to_thread(main, ["trees", *command])
        told = capsys.readouterr()
        assert ending.value.code == code and said in told.out + told.err, (command, told)


@pytest.mark.parametrize("form", ["messages", "atif"])
async def test_every_role_of_an_episode_goes_into_a_file_and_comes_back(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await play(tmp_path / "lake")
    (ended,), tree = read(tmp_path / "lake")

    async def silva(*words: str) -> str:
        with pytest.raises(SystemExit) as ending:
            await asyncio.to_thread(main, ["trees", *words])
        told = capsys.readouterr()
        assert ending.value.code == 0, told.err
        return told.err

    file, given = tmp_path / f"out.{form}", ["--format", form, "--lake", str(tmp_path / "lake")]
    await silva("export", *given, "-o", str(file), "--where", "turns > 0")
    await silva("import", str(file), "--format", form, "--lake", str(tmp_path / "back"))
    with Lake.open(tmp_path / "back", mode="read") as opened:
        (back,) = opened.trajectories()
        for role in roles_of(ended):
            walk = [node.message for node in opened.walk(in_role(back, role))]
            assert walk == [node.message for node in spoken(tree, ended, role)], role
    one = tmp_path / f"contra.{form}"
    assert "1 trajectories, 5 nodes" in await silva("export", *given, "-o", str(one), "--role", "contra")
    with pytest.raises(SystemExit):
        await asyncio.to_thread(main, ["trees", "export", *given, "-o", str(tmp_path / "x"), "--role", "nobody"])
    assert "--role nobody: these trajectories have the roles chair, contra, pro" in capsys.readouterr().err
