"""Online runs behind a real gateway when something goes wrong: it is killed, another run takes its model, the weights
go astray."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_llama  # noqa: F401 - sets how torch's threads wait, before torch reads it
from online_real_parts import TOKEN, GatewayProcess, begun, settings, wait_for, write_home

from silva.lake import Lake

pytestmark = pytest.mark.slow

pytest.importorskip("torch")
pytest.importorskip("peft")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_home(tmp_path_factory.mktemp("online"))


@pytest.fixture(scope="module")
def sure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a policy that is sure of what it says: other weights find that unlikely."""
    return write_home(tmp_path_factory.mktemp("sure"), loud=8.0)


@pytest.fixture
def gateway(home: Path, tmp_path: Path) -> Iterator[GatewayProcess]:
    opened = GatewayProcess(home, tmp_path)
    yield opened
    opened.close()


def test_a_run_whose_gateway_was_killed_goes_on_when_it_is_back(home: Path, tmp_path: Path, gateway: GatewayProcess):
    config = settings(home, tmp_path / "cut", gateway=gateway.at, steps=6)
    run = begun(config, gateway.environ)
    wait_for(tmp_path / "cut" / "checkpoints" / "step-000001", run)
    gateway.kill()
    _, said = run.communicate(timeout=400)
    assert run.returncode not in (0, 1) and "gateway" in said.splitlines()[-1] and "Traceback" not in said
    gateway.start()
    run = begun(config, gateway.environ, "--resume")
    _, said = run.communicate(timeout=400)
    assert run.returncode == 0, said
    assert "going on after step" in said
    from silva.train.registry import Registry

    served = Registry.open(tmp_path / "lake").line("cut").find(gateway.version())
    assert served.key.split("/")[1] == "6"  # a step that was trained twice has two versions
    with Lake.open(tmp_path / "lake", "read") as lake:
        kept = lake.run("cut")
    assert kept is not None and kept.status == "finished"
    assert [point["step"] for point in kept.summary["curve"]] == [1, 2, 3, 4, 5, 6]


async def test_a_model_of_the_gateway_that_another_run_takes_is_left_to_it(
    home: Path, tmp_path: Path, gateway: GatewayProcess
):
    from silva.train.registry import Registry
    from silva.train.registry.publish import GatewayAdmin, publish

    run = begun(settings(home, tmp_path / "one", gateway=gateway.at, steps=500), gateway.environ)
    wait_for(gateway.adapters / "one-1" / "adapter_model.safetensors", run)
    other = Registry.open(tmp_path / "other", make=True)
    other.begin("two", home / "tiny")
    version = other.register("two", gateway.adapters / "one-1")
    until = time.monotonic() + 400
    async with GatewayAdmin(gateway.url, TOKEN) as admin:
        while run.poll() is None and time.monotonic() < until:
            await publish(other, version, admin, "policy", adapter=str(gateway.adapters / "one-1"))
    _, said = run.communicate(timeout=30)
    assert run.returncode == 2 and "model policy of the gateway serves two-1" in said.splitlines()[-1]
    assert "give each run a model of its own" in said.splitlines()[-1]
    with Lake.open(tmp_path / "lake", "read") as lake:
        kept = lake.run("one")
    assert kept is not None and kept.status == "stopped" and kept.summary["curve"]


def test_weights_that_went_astray_are_not_served_on(sure: Path, tmp_path: Path):
    gateway = GatewayProcess(sure, tmp_path)
    try:
        _go_astray(sure, tmp_path, gateway)
    finally:
        gateway.close()


def _go_astray(home: Path, tmp_path: Path, gateway: GatewayProcess) -> None:
    calm = {"gateway": gateway.at, "algorithm": {"name": "sft"}}
    run = begun(settings(home, tmp_path / "astray", steps=4, **calm), gateway.environ)
    _, said = run.communicate(timeout=400)
    assert run.returncode == 0 and gateway.version() == "astray-4", said
    wild = settings(home, tmp_path / "astray", steps=12, optimiser={"learning_rate": 100.0}, **calm)
    run = begun(wild, gateway.environ, "--resume")
    _, said = run.communicate(timeout=400)
    last = said.splitlines()[-1]
    assert run.returncode == 6 and "diverged at step" in last and "the loss is" in last and "nan" not in last, said
    from silva.train.registry import Registry

    served = Registry.open(tmp_path / "lake").line("astray").find(gateway.version())
    step = served.key.split("/")[1]
    assert f"{served.name} of model policy (step {step}) is served again" in last
    assert f"step-{int(step):06d}" in last  # the last good checkpoint's
