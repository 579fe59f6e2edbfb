"""Machines that lack something: what is missing is said in one line or a lower level is declared, and it holds.

The lack is real: a namespace of the test's own in which the kernel refuses, or has not, what a sandbox would use.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from silva.sandbox.criu_trial import trial
from silva.sandbox.system import probe

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(probe().problem), reason="no namespaces here"),
]
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can take a mount away for a test")
SILVA = f"{shlex.quote(sys.executable)} -m silva sandbox"


def without(how: list[str], script: str, state: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in namespaces of its own."""
    environment = {**os.environ, "SILVA_SANDBOXES": str(state)}
    return subprocess.run(
        ["unshare", *how, "sh", "-ec", script],
        capture_output=True,
        text=True,
        timeout=600,
        env=environment,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_no_user_namespaces_is_refused_in_a_line_that_says_what_to_change(tmp_path: Path) -> None:
    state = tmp_path / "state"
    closed = "echo 0 > /proc/sys/user/max_user_namespaces;"
    done = without(["-Ur"], f"{closed} {SILVA} run -- echo ran", state)
    assert done.returncode == 3 and "ran" not in done.stdout
    (line,) = done.stderr.splitlines()
    assert "user.max_user_namespaces is 0" in line and "have it changed" in line
    told = without(["-Ur"], f"{closed} {SILVA} capabilities --json", state)
    about = json.loads(told.stdout)
    assert "max_user_namespaces" in about["namespaces"]["missing"]
    assert about["process"]["isolation"] == "none", "the other backends are still told of, and none is taken instead"
    assert not state.exists() or list(state.iterdir()) == []


@AS_ROOT
def test_no_overlay_lowers_the_level_and_checkpoints_are_kept_by_content(tmp_path: Path) -> None:
    for name in ("lower", "upper", "work", "on"):
        (tmp_path / name).mkdir()
    place, store = tmp_path / "on", tmp_path / "on" / "kept"
    # The kernel takes no overlay for another's upper folder.
    mounts = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    lay = f"mount -t overlay overlay -o {mounts} {place}; "
    run = f"{SILVA} run --snapshots {store}"
    script = (
        f"{lay} {SILVA} capabilities --backend namespaces --json;"
        f"{run} --keep one -- 'echo 1 > a; echo kept' 2>{place}/said;"
        f"{run} --from $(cut -d' ' -f2 {place}/said) -- 'cat a; echo 2 > a; ls /root 2>&1 | wc -l'; ls {store}"
    )
    done = without(["-m"], script, place / "state")
    assert done.returncode == 0, done.stderr
    about, end = json.JSONDecoder().raw_decode(done.stdout)
    reached = about["namespaces"]
    assert (reached["isolation"], reached["files"], reached["fidelity"]) == ("namespaces", "copy", "files")
    assert any("no overlays here" in note for note in reached["notes"])
    printed = done.stdout[end:].split()
    assert printed[:2] == ["kept", "1"] and "objects" in printed and "layers" not in printed


@AS_ROOT
def test_root_without_control_groups_holds_limits_otherwise_and_says_so(tmp_path: Path) -> None:
    state = tmp_path / "state"
    bare = "mount -t tmpfs none /sys/fs/cgroup;"
    told = without(["-m"], f"{bare} {SILVA} capabilities --backend namespaces --json", state)
    reached = json.loads(told.stdout)["namespaces"]
    assert {name: reached["limits"][name] for name in ("memory", "processes", "cpus")} == {
        "memory": "watched",
        "processes": "rlimit",
        "cpus": "not held",
    }
    assert any("no control groups" in note for note in reached["notes"])
    forks = "for i in $(seq 40); do sleep 5 & done; echo all-started"
    many = without(["-m"], f"{bare} {SILVA} run --processes 20 -- {shlex.quote(forks)}", state)
    assert many.returncode != 0 and "all-started" not in many.stdout
    assert "Resource temporarily unavailable" in many.stderr
    hog = "python3 -c 'x = bytearray(300 << 20); import time; time.sleep(60)'"
    large = without(["-m"], f"{bare} {SILVA} run --memory 64M -- {shlex.quote(hog)}", state)
    assert large.returncode != 0 and ("bytes of memory" in large.stderr or "MemoryError" in large.stderr)
    assert list(state.iterdir()) == []


def test_what_no_backend_keeps_is_not_promised(tmp_path: Path) -> None:
    told = without(["-m"] if os.geteuid() == 0 else ["-Ur"], f"{SILVA} capabilities --json", tmp_path / "state")
    levels = {name: about.get("fidelity", "missing") for name, about in json.loads(told.stdout).items()}
    # Processes are kept where CRIU was seen to work alone; else a checkpoint brings back files, and says so.
    assert levels["process"] == "files" and levels["namespaces"] == ("files" if trial() else "exact")
