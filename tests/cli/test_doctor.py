"""`silva doctor` says what is here and what is not, and what to do about it, for root and for an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from silva.cli.doctor_finding import Whether, found
from silva.cli.doctor_programs import programs

NAMES = {
    *("user", "bubblewrap", "user namespaces", "overlay", "seccomp", "control groups", "CRIU", "KSM", "loopback"),
    *("Chromium", "Node.js", "Java", "git", "podman or docker", "desktop"),
    *("processors", "memory", "disk", "torch", "ready"),
}


def told(path: str, state: Path, *before: str) -> dict[str, dict[str, str]]:
    """Every line by its name, of a machine whose programs are those on `path`."""
    command = [*before, sys.executable, "-m", "silva", "doctor", "--json"]
    environ = {**os.environ, "PATH": path, "SILVA_SANDBOXES": str(state), "SILVA_HOME": str(state / "home")}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    return {each["name"]: each for each in json.loads(done.stdout)}


@pytest.mark.slow
def test_every_line_says_what_it_is_for_and_how_to_have_what_is_not_there(tmp_path: Path) -> None:
    lines = told(os.environ["PATH"], tmp_path)
    assert set(lines) >= NAMES
    for line in lines.values():
        assert line["said"] and line["purpose"] and line["whether"] in list(Whether)
        assert line["mend"] if line["whether"] == "no" else True
        assert not any("\n" in text for text in line.values())


@pytest.mark.slow
def test_a_bare_machine_is_told_what_it_lacks(tmp_path: Path) -> None:
    lines = told(str(tmp_path / "nowhere"), tmp_path / "state")
    for name in ("bubblewrap", "user namespaces", "overlay", "Chromium", "Node.js", "Java", "podman or docker"):
        assert lines[name]["whether"] == "no" and lines[name]["mend"], name
    assert "bubblewrap" in lines["user namespaces"]["said"]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root becomes somebody else")
def test_an_ordinary_user_is_told_what_is_less(tmp_path_factory: pytest.TempPathFactory) -> None:
    state = tmp_path_factory.mktemp("state")
    for place in (state, *state.parents):
        if place.name.startswith("pytest-"):
            place.chmod(0o755)
    os.chown(state, 65534, 65534)
    words = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    # By a shell: what setpriv itself starts is still looked for with root's rights.
    asked = [*words, "sh", "-c", '"$0" -c "import silva"', sys.executable]
    if subprocess.run(asked, capture_output=True, check=False, cwd="/").returncode:
        pytest.skip("this interpreter lies where nobody else may look")
    lines = told(os.environ["PATH"], state, *words)
    assert "ordinary user" in lines["user"]["said"]
    assert lines["CRIU"]["whether"] == "no" and lines["user namespaces"]["said"]


def test_programs_that_do_not_run_are_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "node").write_text("#!/nowhere\n")
    (tmp_path / "node").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    lines = {each.name: each for each in programs()}
    assert "does not run" in lines["Node.js"].said
    assert lines["Java"].whether is Whether.NO and "apt-get" in lines["Java"].mend


def test_what_is_there_needs_no_mending() -> None:
    assert found("t", "n", True, "s", "p", "m").mend == "" and found("t", "n", False, "s", "p", "m").mend == "m"
