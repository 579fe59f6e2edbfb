"""`silva rollout` as a user meets it: a program of its own, stopped, killed, resumed, and told wrong things."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from silva.errors import Exit
from silva.lake import Lake
from silva.models.scripted import Fault, Script, ScriptedServer
from silva.tree import Author

ADDING = Path(__file__).parents[1] / "rollout"
SOLVER = Script(function="solver.py:reply", folder=str(ADDING))
SLOW = Script(function="solver.py:reply", folder=str(ADDING), latency=0.03)
EIGHT = ["--env", "arithmetic", "--split", "chain", "--limit", "8", "--pool", "4"]
PROGRESS = re.compile(r"\d+/\d+ episodes, ")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(SLOW) as running:
        yield running


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "silva", *words]


def silva(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, timeout=120
    )


def one_line(done: subprocess.CompletedProcess[str], code: int) -> str:
    """The single line of an error, after its exit code was checked."""
    assert done.returncode == code, done.stderr
    lines = [line for line in done.stderr.strip().splitlines() if not PROGRESS.match(line)]
    assert len(lines) == 1 and lines[0].startswith("error: "), done.stderr
    return lines[0]


def turns(lake: Path, run: str) -> set[str]:
    return {n.id for n in Lake.open(lake, mode="read").nodes(run_id=run) if n.author is Author.POLICY}


def test_a_run_ends_with_a_summary_a_report_and_zero(tmp_path: Path, server: ScriptedServer) -> None:
    model = f"{server.url}#scripted"
    done = silva(tmp_path, "rollout", "--run", "first", "--model", model, *EIGHT, "--report", "r.html", "--json")
    assert done.returncode == Exit.OK, done.stderr
    said = json.loads(done.stdout)
    assert said["status"] == "finished" and said["remaining"] == 0
    assert "<svg" in (tmp_path / "r.html").read_text()
    assert len(Lake.open(tmp_path / "lake", mode="read").trajectories(run_id="first")) == 8
    shown = silva(tmp_path, "report", "--run", "first")
    assert shown.returncode == Exit.OK and "95" in shown.stdout


def test_a_dry_run_tells_what_would_run_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = silva(tmp_path, "rollout", "--run", "dry", "--model", "local", *EIGHT, "--dry-run", "--json", "--group", "3")
    assert done.returncode == Exit.OK, done.stderr
    said = json.loads(done.stdout)
    assert said["plan"]["episodes"] == 24 and said["config"]["pool"] == 4
    assert list(tmp_path.iterdir()) == []


def test_a_config_file_and_overrides_are_one_configuration(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('run = "t"\nenv = ["arithmetic"]\npolicy = "expert"\n[tasks]\nlimit = 5\n')
    done = silva(tmp_path, "rollout", "-c", "run.toml", "tasks.limit=2", "--json")
    assert done.returncode == Exit.OK, done.stderr
    assert len(Lake.open(tmp_path / "lake", mode="read").trajectories(run_id="t")) == 2


def test_a_run_without_a_name_is_called_by_the_clock(tmp_path: Path) -> None:
    done = silva(tmp_path, "rollout", "--env", "arithmetic", "--policy", "expert", "--limit", "1", "--json")
    assert done.returncode == Exit.OK, done.stderr
    assert re.fullmatch(r"run-\d{8}-\d{6}", json.loads(done.stdout)["run"])
    lost = silva(tmp_path, "rollout", "--env", "arithmetic", "--policy", "expert", "--resume")
    assert "--run" in one_line(lost, Exit.USAGE)


def test_ctrl_c_drains_and_resume_asks_only_for_the_rest(tmp_path: Path, server: ScriptedServer) -> None:
    words = ["rollout", "--run", "r", "--model", f"{server.url}#scripted", *EIGHT]
    with subprocess.Popen(command(*words), cwd=tmp_path, stderr=subprocess.PIPE, text=True) as running:
        wait_for(server, 5)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert running.returncode == Exit.INTERRUPTED, said
    assert "--resume" in said
    ended = Lake.open(tmp_path / "lake", mode="read").trajectories(run_id="r")
    assert 0 < len(ended) < 8
    assert all(t.outcome.failure is None for t in ended), "a drain lets episodes in flight end"
    done = silva(tmp_path, *words, "--resume")
    assert done.returncode == Exit.OK, done.stderr
    assert len(Lake.open(tmp_path / "lake", mode="read").trajectories(run_id="r")) == 8
    assert server.requests == len(turns(tmp_path / "lake", "r"))


def test_a_killed_run_resumes_to_what_an_undisturbed_one_grows(tmp_path: Path, server: ScriptedServer) -> None:
    words = ["rollout", "--run", "r", "--model", f"{server.url}#scripted", *EIGHT]
    undisturbed = silva(tmp_path, *words, "--lake", "whole")
    assert undisturbed.returncode == Exit.OK, undisturbed.stderr
    for stop_after in (3, 12):
        before = server.requests
        more = ["--resume"] if (tmp_path / "lake").exists() else []
        with subprocess.Popen(command(*words, *more), cwd=tmp_path, stderr=subprocess.DEVNULL) as running:
            wait_for(server, before + stop_after)
            running.kill()
    done = silva(tmp_path, *words, "--resume")
    assert done.returncode == Exit.OK, done.stderr
    assert turns(tmp_path / "lake", "r") == turns(tmp_path / "whole", "r")
    whole, again = (
        {t.id: (t.outcome.status, t.outcome.score, t.leaf_id) for t in lake.trajectories(run_id="r")}
        for lake in (Lake.open(tmp_path / name, mode="read") for name in ("whole", "lake"))
    )
    assert whole == again


def wait_for(server: ScriptedServer, requests: int) -> None:
    until = time.monotonic() + 60
    while server.requests < requests:
        assert time.monotonic() < until, f"only {server.requests} requests came"
        time.sleep(0.005)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--env", "arithmetik", "--policy", "expert"], Exit.USAGE, "did you mean arithmetic"),
        (["--env", "arithmetic", "--model", "no-such-model"], Exit.USAGE, "no-such-model"),
        (["--env", "arithmetic", "--model", "http://127.0.0.1:9/v1#m"], Exit.UNREACHABLE, "127.0.0.1:9"),
        (["--env", "arithmetic", "--model", "scripted:none.yaml"], Exit.USAGE, "none.yaml"),
        (["--env", "arithmetic", "--policy", "expert", "--tasks", "bad.jsonl"], Exit.USAGE, "line 2"),
        (["--env", "arithmetic", "--policy", "expert", "--tasks", "empty.jsonl"], Exit.USAGE, "empty.jsonl"),
        (["--env", "arithmetic", "--policy", "expert", "--split", "nonsense"], Exit.USAGE, "nonsense"),
        (["--env", "arithmetic", "--policy", "expert", "budgets.turns=3"], Exit.USAGE, "budgets"),
        (["--env", "arithmetic", "--policy", "expert", "pool=0"], Exit.USAGE, "pool"),
        (["--env", "none.py:Nothing", "--policy", "expert"], Exit.USAGE, "none.py"),
        (["--env", "arithmetic", "--policy", "expert", "--resume"], Exit.USAGE, "nothing to resume"),
    ],
)
def test_what_was_told_wrong_is_one_line(words: list[str], code: Exit, told: str, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"id": "arithmetic/x", "env": "arithmetic"}\n{"id": 3}\n')
    (tmp_path / "empty.jsonl").write_text("")
    assert told in one_line(silva(tmp_path, "rollout", "--run", "r", "--limit", "1", *words), code)


def test_an_environment_that_is_not_installed_names_its_command(tmp_path: Path) -> None:
    done = silva(
        tmp_path, "rollout", "--run", "r", "--env", "textworld", "--policy", "expert", SILVA_HOME=str(tmp_path / "home")
    )
    assert "silva envs install textworld" in one_line(done, Exit.MISSING)


@pytest.mark.parametrize(
    ("package", "words", "told"),
    [
        ("torch", ["--model", "local"], "pip install 'silva[local]'"),
        ("obstore", ["--policy", "expert", "--lake", "s3://bucket/lake"], "pip install 'silva[s3]'"),
    ],
)
def test_a_missing_extra_names_its_command(package: str, words: list[str], told: str, tmp_path: Path) -> None:
    given = ["rollout", "--env", "arithmetic", "--limit", "1", *words]
    code = f"import sys; sys.modules[{package!r}] = None; from silva.cli.main import main; main({given!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert told in one_line(done, Exit.MISSING)


def test_two_runs_of_one_name_are_refused_and_the_first_stays(tmp_path: Path) -> None:
    words = ["rollout", "--run", "r", "--env", "arithmetic", "--policy", "expert", "--limit", "2"]
    assert silva(tmp_path, *words).returncode == Exit.OK
    assert "--resume" in one_line(silva(tmp_path, *words), Exit.USAGE)
    assert len(Lake.open(tmp_path / "lake", mode="read").trajectories(run_id="r")) == 2


@pytest.mark.parametrize(
    "fault", [Fault(kind="status", status=400), Fault(kind="status", status=500), Fault(kind="garbage")]
)
def test_a_model_that_only_fails_is_filed_under_the_model(fault: Fault, tmp_path: Path) -> None:
    script = Script(function="solver.py:reply", folder=str(ADDING), faults=(fault,))
    with ScriptedServer(script) as server:
        model = f"{server.url}#scripted"
        done = silva(tmp_path, "rollout", "--run", "r", "--env", "arithmetic", "--limit", "2", "--model", model)
    assert done.returncode in (Exit.INCOMPLETE, Exit.UNREACHABLE), done.stderr
    ended = Lake.open(tmp_path / "lake", mode="read").trajectories(run_id="r")
    assert ended and all(t.outcome.failure.boundary == "model" for t in ended if t.outcome.failure)


def test_a_full_disk_is_one_line_and_what_was_kept_stays(tmp_path: Path, server: ScriptedServer) -> None:
    words = ["rollout", "--run", "r", "--model", f"{server.url}#scripted", *EIGHT]
    limited = f"import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.RLIM_INFINITY)); from silva.cli.main import main; import sys; sys.argv = ['silva', *{words!r}]; main()"  # noqa: E501
    done = subprocess.run([sys.executable, "-c", limited], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "lake" in one_line(done, Exit.STORE)
    kept = turns(tmp_path / "lake", "r")
    again = silva(tmp_path, *words, "--resume")
    assert again.returncode == Exit.OK, again.stderr
    assert kept <= turns(tmp_path / "lake", "r")


def test_a_lake_of_a_newer_silva_is_refused_untouched(tmp_path: Path) -> None:
    words = ["rollout", "--run", "r", "--env", "arithmetic", "--policy", "expert", "--limit", "1"]
    assert silva(tmp_path, *words).returncode == Exit.OK
    marker = tmp_path / "lake" / "lake.json"
    known = json.loads(marker.read_text())
    marker.write_text(json.dumps({**known, "schema": 999}))
    assert "999" in one_line(silva(tmp_path, *words, "--resume"), Exit.STORE)


@pytest.mark.skipif(not shutil.which("setpriv") and os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_lake_is_one_line(tmp_path: Path) -> None:
    words = ["rollout", "--run", "r", "--env", "arithmetic", "--policy", "expert", "--limit", "1"]
    assert silva(tmp_path, *words).returncode == Exit.OK
    blocked = [sys.executable, "-m", "silva", *words, "--resume"]
    for path in [tmp_path / "lake", *(tmp_path / "lake").rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    if os.geteuid() == 0:
        blocked = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs", *blocked]
    done = subprocess.run(blocked, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "lake" in one_line(done, Exit.STORE)
