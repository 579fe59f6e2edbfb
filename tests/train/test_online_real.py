"""The whole of an online run with nothing replaced: a tiny policy, its own server, LoRA, GRPO, an environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny_llama  # noqa: F401 - sets how torch's threads wait, before torch reads it
from online_real_parts import GatewayProcess, settings, write_home

from silva.lake import Lake
from silva.tree import Author

pytestmark = pytest.mark.slow

pytest.importorskip("torch")
pytest.importorskip("peft")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_home(tmp_path_factory.mktemp("online"))


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
    from silva.train.registry import Registry

    gateway = GatewayProcess(home, tmp_path)
    for name, value in gateway.environ.items():
        monkeypatch.setenv(name, value)
    try:
        code, said = run(capsys, str(settings(home, tmp_path / "behind", gateway=gateway.at)))
        assert gateway.version() == "behind-3"
    finally:
        gateway.close()
    assert (code, said["status"]) == (0, "finished") and set(said["staleness"]) <= {"0", "1"}
    line = Registry.open(tmp_path / "lake").line("behind")
    assert [version.name for version in line.versions] == [f"behind-{n}" for n in range(4)]
    assert [version.parent for version in line.versions] == ["", "behind-0", "behind-1", "behind-2"]
    with Lake.open(tmp_path / "lake", "read") as lake:
        drawn = {node.policy_version for node in lake.nodes(run_id="behind") if node.author is Author.POLICY}
    assert drawn & {"behind-1", "behind-2"}
