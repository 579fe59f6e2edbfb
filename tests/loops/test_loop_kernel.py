"""The kernel of loops, with a kind that a package registers: it brings its stages, and everything else is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from small_flywheel import COMMAND
from tally import TALLY, TallyConfig

from silva.errors import Exit, StoreError, UsageError
from silva.loops.kernel.kinds import kind, read_loop
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.pieces import once
from silva.loops.kernel.progress import progress, teller
from silva.loops.kernel.seen import state
from silva.loops.kernel.stage import Stage

HERE = Path(__file__).parent
STAGE = Stage(name="round-1.count", kind="count", round=1, seed=0, inputs="of this")


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment in which a package registers the kind of `tally.py`, and one whose module is gone."""
    info = tmp_path / "site" / "tally-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tally\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[silva.loops]\ntally = tally:TALLY\nbroken = no_such_module:KIND\n")
    path = os.pathsep.join([str(tmp_path / "site"), str(HERE), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


def loop_in(folder: Path) -> Loop[TallyConfig]:
    return TALLY.open(TallyConfig(folder=folder, rounds=(("one", "three"),)))


def silva_loop(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", COMMAND, *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_a_registered_kind_is_a_command_that_goes_on_after_a_kill_and_makes_no_piece_twice(
    tmp_path: Path, installed: dict[str, str]
) -> None:
    folder, file = tmp_path / "loop", tmp_path / "loop.yaml"
    values = {"folder": str(folder), "rounds": [["one", "die", "ask", "three"], ["none", "four"]]}
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    dry = silva_loop(installed, "tally", str(file), "--dry-run")
    assert "# round-2.sum: to do" in dry.stdout and not folder.exists()
    killed = silva_loop(installed, "tally", str(file))
    assert "round-1.count failed" in killed.stderr, killed.stderr
    waits = silva_loop(installed, "tally", str(file), "--one-process")
    assert waits.returncode == Exit.INCOMPLETE and "failed" not in waits.stderr
    assert waits.stderr.splitlines()[-1] == "round-1.count waits: somebody must answer: make the file answered"
    assert state(loop_in(folder)) == "waiting"
    (folder / "answered").touch()
    told = silva_loop(installed, "tally", str(file), "--json")
    assert "round-1.count ended" in told.stderr and "14 letters" in told.stderr
    assert "round-2.sum skipped" in told.stderr and "round-2.count gave nothing" in told.stderr
    facts = json.loads(told.stdout)
    assert facts["loop"] == "tally" and facts["tallied"] == 5
    assert (folder / "made.log").read_text().split() == ["one", "die", "die", "ask", "ask", "three", "none"]
    assert facts["stages"][-1]["outputs"] == {"sums": [14]}
    shown = silva_loop(installed, "show", str(folder))
    assert "ended" in shown.stdout and "tallying" in shown.stdout


UNTIL = """
import sys
from pathlib import Path
from silva.loops.kernel.turn import turn
from tally import TallyConfig
config = TallyConfig(folder=Path(sys.argv[1]), rounds=(("one", "three"),))
print(*turn(config, here=True, until="sum").ledger.over())
print(*turn(config, here=True).ledger.over())
"""


def test_a_loop_stops_before_a_kind_of_stage_and_goes_on_from_there(tmp_path: Path, installed: dict[str, str]) -> None:
    command = [sys.executable, "-c", UNTIL, str(tmp_path / "loop")]
    said = subprocess.run(command, env=installed, capture_output=True, text=True, timeout=120, check=True).stdout
    first, then = [line.split() for line in said.splitlines()]
    assert first == ["round-1.count"] and then[:2] == ["round-1.count", "round-1.sum"]


def test_kinds_that_cannot_be_had_are_told_in_a_line(tmp_path: Path, installed: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="no kind of loop 'flywhel': did you mean flywheel"):
        kind("flywhel")
    file = tmp_path / "loop.yaml"
    file.write_text("folder: loop\n", encoding="utf-8")
    broken = silva_loop(installed, "broken", str(file))
    assert broken.returncode != 0 and "no_such_module" in broken.stderr
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "loop.yaml").write_text("loop: gone\n", encoding="utf-8")
    with pytest.raises(UsageError, match="no kind of loop 'gone'"):
        read_loop(tmp_path / "gone")


def test_a_folder_whose_configuration_names_no_kind_is_a_flywheel(tmp_path: Path) -> None:
    (tmp_path / "loop.yaml").write_text("env: arithmetic\nrounds: [{source: expert, steps: 1}]\n", encoding="utf-8")
    assert read_loop(tmp_path)[0].name == "flywheel"


def test_a_piece_is_kept_by_what_it_is_made_of(tmp_path: Path) -> None:
    loop = loop_in(tmp_path)
    assert once(loop, STAGE, "a", lambda: {"n": 1}) == once(loop, STAGE, "a", lambda: {"n": 2}) == {"n": 1}
    assert once(loop, STAGE, "b", lambda: {"n": 2}) == {"n": 2}
    other = Stage(name=STAGE.name, kind="count", round=1, seed=0, inputs="of something else")
    assert once(loop, other, "a", lambda: {"n": 3}) == {"n": 3}
    next((tmp_path / "pieces" / STAGE.name).iterdir()).write_bytes(b"{")
    with pytest.raises(StoreError, match="remove it, and go on"):
        [once(loop, stage, key, dict) for stage in (STAGE, other) for key in ("a", "b")]


def test_what_a_stage_has_come_to_is_told_while_it_runs_and_forgotten_when_it_is_over(tmp_path: Path) -> None:
    loop = loop_in(tmp_path)
    assert progress(loop) is None
    teller(loop, STAGE, "words")(3, 4)
    assert str(progress(loop)) == "3 of 4 words"
    (tmp_path / "progress.json").write_bytes(b"{")
    assert progress(loop) is None
