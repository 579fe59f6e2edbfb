"""The whole of an online run with nothing replaced: a tiny policy, its own server, LoRA, GRPO, an environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_llama  # noqa: F401 - sets how torch's threads wait, before torch reads it
import yaml

from silva.lake import Lake
from silva.tree import Author

pytestmark = pytest.mark.slow

pytest.importorskip("torch")
pytest.importorskip("peft")

ENVIRONMENT = '''
from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.tree import Task, user


class Vowels:
    """Rewards vowels, so that the replies of an untrained policy differ in what they are worth."""

    capabilities = Capabilities()

    @classmethod
    def tasks(cls, split="train"):
        return [Task(id=f"vowels/{n}", env="vowels", instruction=f"Say {n}.", split=split) for n in range(6)]

    async def reset(self, task, seed):
        return Observation(messages=(user(task.instruction),))

    async def step(self, action):
        text = action.text
        self.score = sum(letter in "aeiou" for letter in text) / max(1, len(text))
        return Observation(messages=(), done=True)

    async def evaluate(self):
        return Evaluation(score=self.score, success=self.score > 0.5)
'''


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from silva.models.tiny import Shape, write_tiny
    from silva.tree import assistant, user

    folder = tmp_path_factory.mktemp("online")
    shape = Shape(vocabulary=320, width=64, inner=96, layers=2, heads=4, key_heads=2, context=256)
    heard = [((user(f"Say {n}."), assistant("aeiou, and sometimes y")), ()) for n in range(6)]
    write_tiny(folder / "tiny", heard, shape, seed=1)
    (folder / "vowels.py").write_text(ENVIRONMENT)
    return folder


def settings(home: Path, output: Path, **fields: Any) -> Path:
    values: dict[str, Any] = {
        "run": output.name,
        "output": str(output),
        "policy": {"weights": str(home / "tiny"), "method": "lora", "adapter": {"rank": 4}, "dtype": "float32"},
        "algorithm": {"name": "grpo"},
        "optimiser": {"learning_rate": 1e-3},
        "steps": 3,
        "batch": 2,
        "group": 3,
        "threads": 1,
        "serve": {"threads": 1},
        "rollout": {
            "env": f"{home / 'vowels.py'}:Vowels",
            "lake": str(output.parent / "lake"),
            "pool": 6,
            "tasks": {"split": "train"},
            "sampling": {"max_tokens": 8},
        },
    }
    file = output.with_suffix(".yaml")
    file.write_text(yaml.safe_dump({**values, **fields}))
    return file


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    from typer.main import get_command

    from silva.cli.train_online import app

    code = get_command(app).main([*words, "--json"], standalone_mode=False)
    return int(code or 0), json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("method", ["lora", "full"])
def test_each_version_is_served_as_soon_as_it_is_trained(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str
):
    policy = {"weights": str(home / "tiny"), "method": method, "dtype": "float32"}
    code, said = run(capsys, str(settings(home, tmp_path / "async", policy=policy)))
    assert (code, said["status"], said["step"]) == (0, "finished", 3)
    assert set(said["staleness"]) <= {"0", "1"} and sum(said["staleness"].values()) == 6
    with Lake.open(tmp_path / "lake", "read") as lake:
        drawn = {node.policy_version for node in lake.nodes(run_id="async") if node.author is Author.POLICY}
        trajectories = lake.trajectories(run_id="async")
        kept = lake.run("async")
    assert kept is not None and kept.status == "finished" and kept.summary["step"] == 3
    assert len({(each.task_id, each.index) for each in trajectories}) == len(trajectories) >= 18
    names = {version.partition("@")[0] for version in drawn}
    assert names > {"tiny"} and names <= {"tiny", "async-1", "async-2", "async-3"}
    assert "<svg" in (tmp_path / "async" / "timeline.html").read_text()
    written = sorted(path.name for path in (tmp_path / "async" / "policy").iterdir())
    assert ("adapter_model.safetensors" if method == "lora" else "model.safetensors") in written


def test_in_turns_no_group_is_older_than_what_is_trained(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    code, said = run(capsys, str(settings(home, tmp_path / "sync")), "mode=sync")
    assert code == 0 and said["staleness"] == {"0": 6}
    with Lake.open(tmp_path / "lake", "read") as lake:
        drawn = {node.policy_version for node in lake.nodes(run_id="sync") if node.author is Author.POLICY}
    assert {version.partition("@")[0] for version in drawn} == {"tiny", "sync-1", "sync-2"}


def test_a_running_gateway_serves_each_version_from_the_registry(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    from silva.models.local.server import start_local
    from silva.train.registry import Registry

    adapters = tmp_path / "adapters"
    adapters.mkdir()
    server = start_local(1, 8, adapters, home / "tiny")
    monkeypatch.setenv("SILVA_ADMIN_TOKEN", "admin-token-of-the-tests")
    monkeypatch.setenv("BACKEND_TOKEN", server.token)
    backend = {"url": server.url, "kind": "silva", "model": "tiny", "api_key_env": "BACKEND_TOKEN"}
    route = {"backends": [backend], "renderer": str(home / "tiny")}
    listen = {"port": 0, "admin_token_env": "SILVA_ADMIN_TOKEN"}
    (tmp_path / "gateway.json").write_text(
        json.dumps({"lake": str(tmp_path / "gateway-lake"), "listen": listen, "models": {"policy": route}})
    )
    gateway = subprocess.Popen(
        [sys.executable, "-m", "silva", "gateway", "--config", str(tmp_path / "gateway.json")],
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    try:
        assert gateway.stdout is not None
        at = {"url": gateway.stdout.readline().strip(), "model": "policy", "adapters": str(adapters)}
        code, said = run(capsys, str(settings(home, tmp_path / "behind", gateway=at)))
    finally:
        gateway.terminate()
        gateway.communicate(timeout=30)
        server.stop_now()
    assert (code, said["status"]) == (0, "finished") and set(said["staleness"]) <= {"0", "1"}
    line = Registry.open(tmp_path / "lake").line("behind")
    assert [version.name for version in line.versions] == [f"behind-{n}" for n in range(4)]
    assert [version.parent for version in line.versions] == ["", "behind-0", "behind-1", "behind-2"]
    with Lake.open(tmp_path / "lake", "read") as lake:
        drawn = {node.policy_version for node in lake.nodes(run_id="behind") if node.author is Author.POLICY}
    assert drawn & {"behind-1", "behind-2"}
