"""Episodes on the workers of a real Ray cluster of two nodes. Needs ray: pip install 'ray[serve]==2.60.0'."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from ray_cluster import TwoNodes, needs_ray, two_nodes

from silva.cli.config import load
from silva.cli.main import run as silva
from silva.errors import Exit, MissingError, UnreachableError, UsageError
from silva.lake import Lake
from silva.models.scripted import Script, ScriptedServer
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.on_ray.placement import RayNode, placed
from silva.rollout.run import Hooks
from silva.tree import Author, Boundary, Node

HERE = Path(__file__).parent
SOLVER = Script(function="solver.py:reply", folder=str(HERE))
SLOW = Script(function="solver.py:reply", folder=str(HERE), latency=0.1)
CHAIN = {"tasks": {"split": "chain", "limit": 10}, "group": 2}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    with pytest.MonkeyPatch.context() as patch, two_nodes(tmp_path_factory.mktemp("ray") / "log", patch) as found:
        yield found


def config(tmp_path: Path, cluster: TwoNodes | None, lake: str = "lake", **fields: object) -> RolloutConfig:
    there = {"on": "ray", "ray": {"address": cluster.address}} if cluster else {}
    fields = {"run": "r", "env": ("arithmetic",), "lake": str(tmp_path / lake), "pool": 8, **there, **fields}
    return RolloutConfig.model_validate(fields)


def grown(settings: RolloutConfig) -> tuple[dict[str, object], dict[str, object]]:
    """What a run grew, without clocks: nodes and trajectories by id."""
    with Lake.open(settings.lake, mode="read") as lake:
        nodes = lake.nodes(run_id="r")
        trajectories = lake.trajectories(run_id="r")
    assert len({node.id for node in nodes}) == len(nodes)
    assert len({each.id for each in trajectories}) == len(trajectories)
    shown = {node.id: (node.parent_id, node.depth, node.slot, node.message, node.reward) for node in nodes}
    ended = {each.id: (each.seed, each.leaf_id, each.outcome, each.turns, each.reward) for each in trajectories}
    return shown, ended


def turns(settings: RolloutConfig) -> int:
    with Lake.open(settings.lake, mode="read") as lake:
        return sum(node.author is Author.POLICY for node in lake.nodes(run_id="r"))


async def until(holds: Callable[[], object], seconds: float = 120.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.02)


def workers() -> dict[int, int]:
    """The processes of Ray that play episodes, each with its parent, the node."""
    found: dict[int, int] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cmdline()[:1] == ["ray::Worker"] or process.name().startswith("ray::Worker"):
                found[process.pid] = process.ppid()
    return found


def hosts() -> set[int]:
    found: set[int] = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if "silva.envs.host" in process.cmdline() and "arithmetic" in " ".join(process.cmdline()):
                found.add(process.pid)
    return found


@pytest.mark.slow
@needs_ray
async def test_trees_are_those_of_a_run_without_ray(tmp_path: Path, cluster: TwoNodes) -> None:
    seen: set[int] = set()
    async with ScriptedServer(SOLVER) as server:
        model = {"model": f"{server.url}#scripted", **CHAIN}
        here = await run_rollout(config(tmp_path, None, "here", **model))
        there = await run_rollout(
            config(tmp_path, cluster, "there", **model), hooks=Hooks(on_end=lambda _: seen.update(workers().values()))
        )
    assert grown(config(tmp_path, None, "here")) == grown(config(tmp_path, None, "there"))
    assert len(seen) == 2, "both nodes had a worker"
    assert there.run.status == "finished" and there.exit_code is here.exit_code is Exit.OK
    assert {t.id for t in there.trajectories} == {t.id for t in here.trajectories}
    assert not workers()


@pytest.mark.slow
@needs_ray
async def test_a_killed_worker_and_a_killed_node_cost_no_turn_and_repeat_none(
    tmp_path: Path, cluster: TwoNodes
) -> None:
    async with ScriptedServer(SOLVER) as server:
        await run_rollout(config(tmp_path, None, "here", model=f"{server.url}#scripted", **CHAIN))
    async with ScriptedServer(SLOW) as server:
        settings = config(tmp_path, cluster, model=f"{server.url}#scripted", **CHAIN)
        running = asyncio.ensure_future(run_rollout(settings))
        await until(lambda: server.requests >= 15 or running.done())
        killed = next(iter(workers()))
        os.kill(killed, signal.SIGKILL)
        at_kill = server.requests
        await until(lambda: server.requests >= at_kill + 20 or running.done())
        assert not running.done()
        await asyncio.to_thread(cluster.kill_node)
        try:
            result = await running
        finally:
            await asyncio.to_thread(cluster.add_node)
        asked = server.requests
    assert result.remaining == 0 and result.exit_code is Exit.OK
    assert not [t for t in result.trajectories if t.superseded or t.outcome.failure]
    assert grown(settings) == grown(config(tmp_path, None, "here"))
    kept = sum(t.turns for t in result.trajectories)
    assert kept <= asked <= kept + 2 * 8, "at most the turns in flight at each kill are asked for again"


@pytest.mark.slow
@needs_ray
async def test_an_episode_that_kills_its_workers_is_a_failure_of_infrastructure(
    tmp_path: Path, cluster: TwoNodes
) -> None:
    name = f"{HERE / 'breaking.py'}:Breaking"
    settings = config(tmp_path, cluster, env=(name,), policy="expert", retries=0, hosts={"inline": True})
    settings = settings.model_copy(update={"tasks": load_tasks("breaking/dies", "breaking/fine")})
    result = await run_rollout(settings)
    by_task = {t.task_id: t for t in result.trajectories}
    assert by_task["breaking/fine"].outcome.success
    failure = by_task["breaking/dies"].outcome.failure
    assert failure is not None and failure.boundary is Boundary.INFRASTRUCTURE and failure.code == "ray.worker"
    assert result.exit_code is Exit.INCOMPLETE
    with Lake.open(settings.lake, mode="read") as lake:
        assert {t.id for t in lake.trajectories(run_id="r")} == {t.id for t in result.trajectories}
        assert len(lake.walk(by_task["breaking/dies"])) == 2 * by_task["breaking/dies"].turns <= 2


def load_tasks(*ids: str) -> object:
    from silva.rollout import TaskSelection

    return TaskSelection(ids=ids)


def command(tmp_path: Path, cluster: TwoNodes, url: str, *words: str) -> subprocess.Popen[str]:
    given = ["rollout", "--env", "arithmetic", "--run", "r", "--lake", str(tmp_path / "lake"), "--pool", "8"]
    given += ["--split", "chain", "--limit", "10", "--group", "2", "--model", f"{url}#scripted"]
    given += ["--on", "ray", f"ray.address={cluster.address}", "--json", *words]
    line = [sys.executable, "-m", "silva", *given]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
@needs_ray
async def test_ctrl_c_and_kill_9_end_the_workers_and_resume_goes_on_with_ray_and_without(
    tmp_path: Path, cluster: TwoNodes
) -> None:
    async with ScriptedServer(SLOW) as server:
        first = command(tmp_path, cluster, server.url)
        await until(lambda: server.requests >= 12 or first.poll() is not None)
        first.send_signal(signal.SIGINT)
        await asyncio.sleep(0.1)
        first.send_signal(signal.SIGINT)
        out, err = await asyncio.to_thread(first.communicate, timeout=120)
        assert first.returncode == Exit.INTERRUPTED, err
        assert json.loads(out)["remaining"] > 0 and "Traceback" not in err
        await until(lambda: not workers() and not hosts())
        settings = config(tmp_path, None, model=f"{server.url}#scripted", **CHAIN)
        before, asked = turns(settings), server.requests
        assert before >= 4
        second = command(tmp_path, cluster, server.url, "--resume")
        await until(lambda: server.requests >= asked + 10 or second.poll() is not None)
        second.kill()
        second.communicate()
        await until(lambda: not workers() and not hosts())
        kept, asked = turns(settings), server.requests
        assert kept > before
        result = await run_rollout(settings, resume=True)
        assert server.requests - asked == sum(t.turns for t in result.trajectories) - kept
    assert result.remaining == 0
    async with ScriptedServer(SOLVER) as server:
        await run_rollout(config(tmp_path, None, "here", model=f"{server.url}#scripted", **CHAIN))
    assert grown(settings) == grown(config(tmp_path, None, "here"))


@pytest.mark.slow
@needs_ray
async def test_what_cannot_be_had_on_the_cluster_is_said_before_anything_runs(
    tmp_path: Path, cluster: TwoNodes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def there(**ray: object) -> RolloutConfig:
        return config(tmp_path, cluster, policy="expert", ray={"address": cluster.address, **ray})

    with pytest.raises(UsageError, match="no node of the Ray cluster has 64 CPUs for a worker"):
        await run_rollout(there(cpus=64))
    with pytest.raises(UsageError, match=r"ray\.workers=3: the cluster has room for 2"):
        await run_rollout(there(workers=3))
    one = {"address": cluster.address, "workers": 1}
    with pytest.raises(MissingError, match=r"node [\d.]+: environment bfcl is not installed; run: silva envs install"):
        await run_rollout(config(tmp_path, cluster, policy="expert", env=("bfcl",), ray=one))
    missing = f"scripted:{tmp_path / 'none.json'}"
    with pytest.raises(UsageError, match=r"node [\d.]+: .*none\.json"):
        await run_rollout(config(tmp_path, cluster, model=missing, tasks={"limit": 1}, ray=one))
    words = ["rollout", "--env", "arithmetic", "--policy", "expert", "--limit", "3", "--on", "ray", "--dry-run"]
    words += ["--lake", str(tmp_path / "dry")]
    assert await asyncio.to_thread(silva, [*words, f"ray.address={cluster.address}", "ray.workers=2"]) == Exit.OK
    told = capsys.readouterr().out
    assert f"# on: ray at {cluster.address}: 2 workers of 1 CPUs on 2 of 2 nodes, 8 episodes each" in told
    assert "# tasks: 3" in told and not (tmp_path / "dry").exists()


@pytest.mark.slow
@needs_ray
async def test_no_cluster_is_told_at_once(tmp_path: Path) -> None:
    began = time.monotonic()
    for address in ("127.0.0.1:1",):
        with pytest.raises(UnreachableError, match="no Ray cluster lets us in at"):
            await run_rollout(config(tmp_path, None, policy="expert", on="ray", ray={"address": address}))

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()

    async with await asyncio.start_server(silent, "", 0) as server:
        port = server.sockets[0].getsockname()[1]
        settings = config(tmp_path, None, policy="expert", on="ray", ray={"address": f"127.0.0.1:{port}"})
        with pytest.raises(UnreachableError, match="no Ray cluster"):
            await asyncio.to_thread(lambda: asyncio.run(run_rollout(settings)))
    assert time.monotonic() - began < 20


async def test_without_ray_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingError, match=r"pip install 'silva\[ray\]'"):
        await run_rollout(config(tmp_path, None, policy="expert", on="ray"))


def test_a_configuration_says_where_in_one_word(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("env: arithmetic\non: ray\nray:\n  workers: 4\n")
    settings = load(RolloutConfig, path)
    assert settings.on == "ray" and settings.ray.workers == 4 and settings.ray.address == "auto"
    here = load(RolloutConfig, path, ["on=local"])
    assert here.growth_digest() == settings.growth_digest()
    with pytest.raises(UsageError, match=r"address 'ray://head:10001': auto or HOST:PORT"):
        load(RolloutConfig, path, ["ray.address=ray://head:10001"])
    with pytest.raises(UsageError, match="on: ray plays the agents tools and react"):
        load(RolloutConfig, path, ['agent="program: true"'])


def test_workers_go_round_the_nodes_that_have_room() -> None:
    nodes = [RayNode(id=name, address=name, cpus=cpus) for name, cpus in (("head", 0), ("a", 2), ("b", 4))]
    assert placed(nodes, 1.0, None, 100) == ["a", "b"]
    assert placed(nodes, 1.0, None, 1) == ["a"]
    assert placed(nodes, 1.0, 5, 100) == ["a", "b", "a", "b", "b"]
    assert placed(nodes, 0.5, 3, 2) == ["a", "b"]
    assert placed(nodes, 3.0, None, 100) == ["b"]
    with pytest.raises(UsageError, match="room for 6"):
        placed(nodes, 1.0, 7, 100)
    with pytest.raises(UsageError, match="the largest of 3 has 4"):
        placed(nodes, 5.0, None, 100)


def test_a_flight_writes_each_node_once_and_remembers_what_a_sibling_wrote() -> None:
    from silva.rollout.on_ray.flight import Flight
    from silva.rollout.on_ray.letters import Records
    from silva.rollout.slots import Slot
    from silva.tree import Task, encode, node_id, user

    async def fly() -> None:
        slot = Slot(env="e", task=Task(id="e/1", env="e"), index=0, attempt=0, seed=1, tree_id="t")
        message = user("prompt")
        name = node_id("t", None, Author.ENVIRONMENT, message, None, "")
        node = Node(
            id=name, run_id="r", tree_id="t", parent_id=None, depth=0, author=Author.ENVIRONMENT, message=message
        )
        letter = Records(number=1, flight=1, nodes=((name, encode(node)),))
        written: set[str] = set()
        one, other = Flight(slot, [], written), Flight(slot, [], written)
        assert one.take(letter) == [encode(node)] and other.take(letter) == []
        assert one.walk() == other.walk() == (node,)

    asyncio.run(fly())
