"""Weights & Biases and MLflow hold what was written to them, and what they refuse is one line."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from silva.errors import Exit
from silva.train.config import TrainConfig
from silva.train.curves import Point
from silva.train.trackers import trackers

pytestmark = pytest.mark.slow

POINTS = [
    Point(step=0, values={"held_out_loss": 4.0}),
    Point(step=1, values={"loss": 2.5, "gradient_norm": 0.5}),
    Point(step=2, values={"loss": 1.25, "gradient_norm": 0.25, "held_out_loss": 3.0}),
]
BLOCK, HEAD = 32768, 7


def write(tmp_path: Path, **curves: Any) -> None:
    """Send the points to one tracker, as a run does."""
    output = tmp_path / "out"
    output.mkdir()
    values = {"run": "tiny", "output": str(output), "data": {"files": ["none"]}, "curves": curves, "seed": 7}
    (sink,) = trackers(TrainConfig.model_validate(values))
    for point in POINTS:
        sink.write(point)
    sink.close()


def records(file: Path) -> Iterator[bytes]:
    """The records of a file of wandb's: after seven bytes of its own, a log in LevelDB's form."""
    data, at, parts = file.read_bytes(), HEAD, b""
    while at + HEAD <= len(data):
        if BLOCK - at % BLOCK < HEAD:
            at += BLOCK - at % BLOCK
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        parts += data[at + HEAD : at + HEAD + length]
        at += HEAD + length
        if kind in (1, 4):  # whole, or its last part
            yield parts
            parts = b""


def test_wandb_holds_the_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    wandb = pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    monkeypatch.setenv("WANDB_MODE", "offline")
    write(tmp_path, wandb="forest")
    wandb.teardown()  # its service writes the file's end after `finish` has returned; a process that ends waits for it
    (file,) = (tmp_path / "out" / "wandb").glob("offline-run-*/run-tiny.wandb")
    held: dict[int, dict[str, float]] = {}
    runs = []
    for each in records(file):
        record = Record.FromString(each)
        if record.HasField("run"):
            runs.append((record.run.project, record.run.display_name, record.run.run_id))
        if record.HasField("history"):
            items = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            held[record.history.step.num] = {name: value for name, value in items.items() if name[0] != "_"}
    assert set(runs) == {("forest", "tiny", "tiny")}
    assert held == {point.step: point.values for point in POINTS}


def test_mlflow_holds_the_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

    store = (tmp_path / "runs").as_uri()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    write(tmp_path, mlflow="forest")
    client = MlflowClient(store)
    experiment = client.get_experiment_by_name("forest")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("tiny", "FINISHED")
    assert run.data.params["seed"] == "7" and math.isclose(float(run.data.params["learning_rate"]), 2e-4)
    for name in ("loss", "gradient_norm", "held_out_loss"):
        held = [(each.step, each.value) for each in client.get_metric_history(run.info.run_id, name)]
        assert sorted(held) == [(point.step, point.values[name]) for point in POINTS if name in point.values]


REFUSED = """
import sys
from silva.errors import UnreachableError
from silva.train.config import TrainConfig
from silva.train.trackers import trackers
try:
    trackers(TrainConfig.model_validate_json(sys.argv[1]))
except UnreachableError as refused:
    print(int(refused.code), refused)
"""


@pytest.mark.parametrize(
    ("name", "environment", "said"),
    [
        ("wandb", {"WANDB_MODE": "online"}, "No API key configured"),
        ("mlflow", {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9"}, "API request to .* failed"),
        ("mlflow", {"MLFLOW_TRACKING_URI": "sqlite:///none.db"}, ".*unsupported URI"),
    ],
)
def test_a_tracker_that_refuses_is_one_line(tmp_path: Path, name: str, environment: dict[str, str], said: str):
    pytest.importorskip(name)
    alone = {"HOME": str(tmp_path), "NETRC": str(tmp_path / "none"), "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("WANDB_", "MLFLOW_"))}
    values = json.dumps({"output": str(tmp_path), "data": {"files": ["none"]}, "curves": {name: "forest"}})
    child = subprocess.run(  # of its own: wandb reads its environment once a process
        [sys.executable, "-c", REFUSED, values],
        env=inherited | alone | environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    (line,) = child.stdout.splitlines()
    assert re.match(rf"{int(Exit.UNREACHABLE)} curves.{name}: {said}", line), child.stderr
