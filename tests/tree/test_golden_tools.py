"""The tools themselves read what Silva writes for them: the golden files, and what is written today.

Slow: needs `silva envs install inspect verifiers openenv`, whose interpreters have the tools, and silva[train,trl] for
LLaMA-Factory, whose wheel alone is fetched (half a megabyte). What is missing is skipped.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from frameworks import FRAMEWORKS, GOLDEN, golden_writer

from silva.envs import Registry
from silva.envs.install import installed, interpreter
from silva.tree.formats import sharegpt

pytestmark = pytest.mark.slow


def check(tool: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    """What golden/check_with_real_tools.py says in the interpreter of the bridge to the tool."""
    entry = Registry.load().entry(tool)
    if not installed(entry):
        pytest.skip(f"silva envs install {tool}")
    command = [interpreter(entry), GOLDEN / "check_with_real_tools.py", tool, *folders]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environ)


@pytest.mark.parametrize("tool", ["inspect", "verifiers", "openenv"])
def test_the_tool_reads_the_golden_file_and_what_is_written_today(tool: str, tmp_path: Path) -> None:
    golden_writer().main(tmp_path)
    done = check(tool, FRAMEWORKS, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tool}: reads what Silva wrote\n"


@pytest.mark.parametrize("tool", ["verifiers", "openenv"])
def test_the_check_sees_a_file_that_says_something_else(tool: str, tmp_path: Path) -> None:
    written = (FRAMEWORKS / f"silva-{tool}.jsonl").read_text()
    assert written.count("-0.5") > 0
    (tmp_path / f"silva-{tool}.jsonl").write_text(written.replace("-0.5", "-0.25"))
    done = check(tool, tmp_path)
    assert done.returncode == 1 and "AssertionError" in done.stderr


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("datasets", "peft", "transformers"))),
    reason="pip install 'silva[train,trl]'",
)
def test_llama_factory_reads_the_sharegpt_rows_as_they_are_and_as_silva_writes_them_again(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target", tmp_path / "packages"]
    subprocess.run([*pip, "llamafactory==0.9.5"], check=True, timeout=300)
    golden = GOLDEN / "tools"
    with (golden / "sharegpt.jsonl").open("rb") as lines:
        (tmp_path / "sharegpt.jsonl").write_text("".join(sharegpt.write(sharegpt.read(lines))))
    command = [sys.executable, GOLDEN / "check_with_real_tools.py", "sharegpt", golden, tmp_path]
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "packages"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environ)
    assert (done.returncode, done.stdout) == (0, "sharegpt: reads what Silva wrote\n"), done.stderr
