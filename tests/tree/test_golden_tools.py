"""The tools themselves read what Silva writes for them: the golden files, and what is written today.

Slow: needs `silva envs install inspect verifiers openenv`, whose interpreters have the tools, and silva[train,trl] for
LLaMA-Factory, whose wheel alone is fetched (half a megabyte). What is missing is skipped.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from frameworks import FRAMEWORKS, GOLDEN, golden_writer

from silva.cli.main import run as silva
from silva.envs import Registry
from silva.envs.install import installed, interpreter
from silva.lake import Lake
from silva.models.child import free_port
from silva.tree.formats import merged, sharegpt

pytestmark = pytest.mark.slow


def check(tool: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    """What golden/check_with_real_tools.py says in the interpreter of the bridge to the tool."""
    command = [*tool_command(tool), GOLDEN / "check_with_real_tools.py", tool, *folders]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=plain())


def tool_command(tool: str, command: str = "") -> list[str]:
    """The interpreter that has the tool, or the command of that name beside it."""
    entry = Registry.load().entry(tool)
    if not installed(entry):
        pytest.skip(f"silva envs install {tool}")
    program = Path(interpreter(entry))
    return [str(program.with_name(command) if command else program)]


def plain() -> dict[str, str]:
    """The environment without the path to this checkout, which the tools' interpreters do not want."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.mark.parametrize("tool", ["inspect", "verifiers", "openenv"])
def test_the_tool_reads_the_golden_file_and_what_is_written_today(tool: str, tmp_path: Path) -> None:
    golden_writer().main(tmp_path)
    done = check(tool, FRAMEWORKS, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tool}: reads what Silva wrote\n"


def exported(folder: Path) -> Path:
    """The golden bundles in a lake, and out again by the command, as Inspect's log."""

    async def fill() -> None:
        async with Lake.open(folder / "lake") as lake:
            for bundle in golden_writer().bundles():
                for data in bundle.blobs.values():
                    await lake.put_blob(data, "image/png")
                await lake.append(list(bundle.records()))

    asyncio.run(fill())
    out = folder / "logs" / "silva-inspect.eval"
    out.parent.mkdir()
    command = ["trees", "export", "--lake", str(folder / "lake"), "-f", "inspect", "-o", str(out)]
    assert silva(command) == 0
    return out


def test_inspect_reads_the_log_that_the_command_exports(tmp_path: Path) -> None:
    done = check("inspect", exported(tmp_path).parent)
    assert (done.returncode, done.stdout) == (0, "inspect: reads what Silva wrote\n"), done.stderr


def test_inspect_view_serves_the_exported_log_with_its_picture(tmp_path: Path) -> None:
    out = exported(tmp_path)
    port = free_port()
    where = f"http://127.0.0.1:{port}/api/logs"
    command = [
        *tool_command("inspect", "inspect"),
        "view",
        "--log-dir",
        ".",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=out.parent, env=plain(), **quiet) as view:
        try:
            (listed,) = json.loads(fetched(where, view))["files"]
            log = json.loads(fetched(f"{where}/{quote(listed['name'], safe='')}", view))
        finally:
            view.terminate()
    assert listed["name"].endswith(out.name)
    assert len(log["samples"]) == 5
    pictures = [text for sample in log["samples"] for text in sample["attachments"].values()]
    assert any(text.startswith("data:image/png;base64,") for text in pictures)


def fetched(address: str, server: subprocess.Popen[Any]) -> bytes:
    """What the server answers, once it does."""
    end = time.monotonic() + 120
    while True:
        try:
            with urlopen(address, timeout=30) as answer:
                return answer.read()
        except URLError:
            assert server.poll() is None and time.monotonic() < end, "the viewer does not answer"
            time.sleep(0.2)


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
        (tmp_path / "sharegpt.jsonl").write_text("".join(sharegpt.write(merged(sharegpt.read(lines)))))
    command = [sys.executable, GOLDEN / "check_with_real_tools.py", "sharegpt", golden, tmp_path]
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "packages"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environ)
    assert (done.returncode, done.stdout) == (0, "sharegpt: reads what Silva wrote\n"), done.stderr
