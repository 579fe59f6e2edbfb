"""`silva sandbox`, as typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from silva.sandbox.system import probe

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(probe().problem), reason="no namespaces here"),
]


def silva(state: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SILVA_SANDBOXES": str(state)}
    return subprocess.run(
        [sys.executable, "-m", "silva", "sandbox", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )


def test_run_gives_output_code_and_reason(tmp_path: Path) -> None:
    done = silva(tmp_path, "run", "--", "cat; echo wrong >&2; exit 5", stdin="typed")
    assert (done.returncode, done.stdout, done.stderr) == (5, "typed", "wrong\n")
    late = silva(tmp_path, "run", "--timeout", "0.2", "--", "sleep", "60")
    assert late.returncode == 6 and late.stderr == "killed: it took longer than 0.2 s\n"
    told = json.loads(silva(tmp_path, "run", "--json", "--", "printf", "%s", "a b").stdout)
    assert told["stdout"] == "a b" and told["killed"] is None
    wrong = silva(tmp_path, "run", "--memory", "much", "--", "true")
    assert wrong.returncode == 2 and wrong.stderr == "error: 'much' is no size: write 512M or 2G\n"
    assert list(tmp_path.iterdir()) == []


def test_keep_and_begin_again(tmp_path: Path) -> None:
    kept = silva(tmp_path / "s", "run", "--snapshots", str(tmp_path / "k"), "--keep", "one", "--", "echo 1 > a")
    id = kept.stderr.split()[-1]
    again = silva(tmp_path / "s", "run", "--snapshots", str(tmp_path / "k"), "--from", id, "--", "cat a")
    assert again.stdout == "1\n"
    gone = silva(tmp_path / "s", "run", "--snapshots", str(tmp_path / "k"), "--from", "f" * 16, "--", "cat a")
    assert gone.returncode == 5 and "there is no checkpoint" in gone.stderr
    lost = silva(tmp_path / "s", "run", "--keep", "x", "--", "true")
    assert lost.returncode == 2 and "need --snapshots FOLDER" in lost.stderr


def test_ps_gc_and_capabilities(tmp_path: Path) -> None:
    assert silva(tmp_path, "ps").stdout == "no sandboxes\n"
    assert json.loads(silva(tmp_path, "gc", "--json").stdout)["owners"] == 0
    about = json.loads(silva(tmp_path, "capabilities", "--json").stdout)
    assert about["namespaces"]["isolation"] == "namespaces" and about["process"]["isolation"] == "none"
    assert "missing" in about["container"] or about["container"]["isolation"] == "container"
