"""`silva redteam`, as somebody types it: a plan is played, told, resumed with nothing twice, and refused in a line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from silva.lake import Lake

SCRIPT = Path(__file__).parent / "obedient.yaml"


def silva(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "silva", *map(str, arguments)], capture_output=True, text=True, timeout=200, check=False
    )


def test_a_plan_is_played_told_and_held_to_a_bar(tmp_path: Path) -> None:
    lake = ("--lake", tmp_path / "lake")
    what = (
        "--env",
        "arithmetic",
        "--model",
        f"scripted:{SCRIPT}",
        "--limit",
        "2",
        "tasks.split=chain",
        "budget.turns=6",
    )
    attack = ("--attack", "tool_result/plain/answer", "--attack", "tool_result/plain/send", "--perturb", "failure")
    done = silva("redteam", "run", "--run", "p", *what, *attack, *lake, "--json")
    assert done.returncode == 0, done
    told = json.loads(done.stdout)
    names = ["p.none", "p.tool_result.plain.answer", "p.tool_result.plain.send", "p.perturb.failure"]
    assert told["runs"] == names
    none, answer, send, _ = told["rates"]
    assert none["attack"] == "" and none["attempts"] == 2 and none["success"] is None
    assert answer["exposed"] == 2 and answer["success_exposed"]["value"] == 1.0 and answer["safety"]["value"] == 0.0
    assert send["launched"] == 0 and send["safety"] is None and send["not_launched"][0][1] == 2

    with Lake.open(tmp_path / "lake", mode="read") as opened:
        before = {each.id for name in names for each in opened.trajectories(run_id=name)}
    again = silva("redteam", "run", "--run", "p", *what, *attack, *lake, "--resume")
    assert again.returncode == 0 and "did it" not in again.stdout, again
    with Lake.open(tmp_path / "lake", mode="read") as opened:
        assert {each.id for name in names for each in opened.trajectories(run_id=name)} == before

    files = ("--sarif", tmp_path / "p.sarif", "--junit", tmp_path / "p.xml")
    shown = silva("redteam", "report", "p", *lake, "--most", "0.1", *files)
    log, suite = json.loads((tmp_path / "p.sarif").read_text()), (tmp_path / "p.xml").read_text()
    assert len(log["runs"][0]["results"]) == 2 and 'failures="1"' in suite and 'skipped="1"' in suite
    assert shown.returncode == 1 and "tool_result/plain/answer" in shown.stderr, shown
    page = tmp_path / "p.html"
    assert silva("redteam", "report", "p", "p.none", *lake, "--html", page).returncode == 0
    (command, *_) = re.findall(r"silva redteam replay p --trajectory [0-9a-f]{12}", page.read_text())
    one = silva(*command.split()[1:], *lake, "--json")
    assert json.loads(one.stdout)["replayed"][0]["trajectory"].startswith(command.split()[-1]), one
    wrong = silva(*command.split()[1:-1], "zz", *lake)
    assert wrong.returncode == 2 and "no failure of this plan begins so" in wrong.stderr

    detected = json.loads(silva("redteam", "detect", "p", *lake, "--json").stdout)
    agreed = {each["detector"]: each for each in detected["agreement"]}
    assert agreed["order"]["happened"] == 2 and agreed["obeyed"]["found"]["value"] == 1.0
    assert agreed["obeyed"]["others"] == 6 and agreed["obeyed"]["false_alarms"]["value"] == 0.0

    replayed = silva("redteam", "replay", "p", *lake)
    lines = replayed.stdout.splitlines()
    assert replayed.returncode == 0 and len(lines) == 2, replayed
    assert all("tool_result/plain/answer: seen at turn 2, done at turn 2; the same again" in line for line in lines)
    other = json.loads(silva("redteam", "replay", "p", *lake, "--attack", "tool_result/plain/send", "--json").stdout)
    assert other == {"name": "p", "failures": 0, "replayed": []}
    assert silva("redteam", "replay", "nobody", *lake).returncode == 2


def test_a_plan_with_attackers_and_defences_is_told_before_it_is_played() -> None:
    what = ("--env", "arithmetic", "--attack", "tool_result/plain/answer", "--attacker", "tap", "--defence", "sinks")
    done = silva("redteam", "run", "--run", "p", *what, "--tries", "3", "--dry-run")
    assert done.stdout.split("\n")[:2] == ["p.none", "p.with.sinks.none"], done
    assert "p.tap.tool_result.plain.answer.r1 … r3" in done.stdout


def test_a_plan_in_a_file_names_targets(tmp_path: Path) -> None:
    examples = Path(__file__).parents[2] / "examples" / "redteam" / "three.yaml"
    listed = silva("redteam", "run", "--plan", examples, "--dry-run").stdout.split()
    assert listed[3] == "three.assistant.file.plain.answer" and listed[-1] == "three.rooms.user_turn.important.answer"
    one = "run: p\nattack: [memory/plain/answer]\ntargets: "
    for targets, line in (
        ("{a: {env: arithmetic, modle: local}}", "modle"),
        ("{a: {env: arithmetic, run: x}}", "leave run out"),
        ("{a: {env: arithmetic, attack: [x]}}", "write SURFACE/FRAMING/GOAL"),
        ("{}", "targets"),
        ("{a: {env: arithmetic, lake: l}, b: {env: babyai}}", "several lakes"),
    ):
        (tmp_path / "plan.yaml").write_text(one + targets)
        done = silva("redteam", "run", "--plan", tmp_path / "plan.yaml", "--dry-run")
        assert done.returncode == 2 and line in done.stderr and len(done.stderr.strip().splitlines()) == 1, done
    done = silva("redteam", "run", "--plan", examples, "--attack", "memory/plain/answer")
    assert done.returncode == 2 and "--plan says what is attacked" in done.stderr
    done = silva("rollout", "--env", "arithmetic", *("--attack", "memory/plain/answer") * 2, "--dry-run")
    assert done.returncode == 2 and "a rollout is under one attack" in done.stderr


def test_what_cannot_be_played_is_one_line(tmp_path: Path) -> None:
    for arguments, line in (
        (("run", "--env", "arithmetic"), "choose --attack"),
        (("run", "--env", "arithmetic", "--attack", "a/b/c"), "there is no surface 'a'"),
        (("run", "--env", "arithmetic", "--attacker", "pair"), "name it, --attack"),
        (("report", "nothing", "--lake", str(tmp_path / "none")), ""),
    ):
        done = silva("redteam", *arguments)
        assert done.returncode not in (0, 1) and line in done.stderr, done
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
