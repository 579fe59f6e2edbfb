"""A verifiers taskset that is a package of its own, registered as the guide shows. Slow: it is installed."""

import base64
import hashlib
import os
import re
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from silva.envs import HostPool, Registry
from silva.envs.install import install, installed
from silva.tree import assistant

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "bridges.md"
TASKSET = """
import verifiers.v1 as vf

__all__ = ["EchoTaskset"]


class EchoTask(vf.Task[vf.TaskData]):
    @vf.reward(weight=1.0)
    async def echoed(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == "acorn")


class EchoTaskset(vf.Taskset[EchoTask, vf.TasksetConfig]):
    def load(self):
        yield EchoTask(vf.TaskData(prompt="Say acorn."), self.config.task)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not installed(Registry.load().entry("verifiers")), reason="silva envs install verifiers"),
]


def wheel(folder: Path) -> None:
    """`my-taskset` 1.0.0, to be found there by pip."""
    info = "my_taskset-1.0.0.dist-info"
    files = {
        "my_taskset.py": TASKSET,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: my-taskset\nVersion: 1.0.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {name: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()) for name, text in files.items()}
    lines = [f"{name},sha256={digests[name].rstrip(b'=').decode()},{len(text)}" for name, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,"]) + "\n"
    with zipfile.ZipFile(folder / "my_taskset-1.0.0-py3-none-any.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


@pytest.fixture
def registered(tmp_path, monkeypatch):
    """The guide's Python as a module that an installed package's entry point names; the taskset where pip looks."""
    (shown,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (tmp_path / "my_taskset_for_silva.py").write_text(shown)
    info = tmp_path / "my_taskset_for_silva-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-taskset-for-silva\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[silva.envs]\nmy_taskset = my_taskset_for_silva:ENTRY\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_taskset_for_silva", raising=False)
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel(wheels)
    monkeypatch.setenv("PIP_FIND_LINKS", f"{wheels} {os.environ.get('PIP_FIND_LINKS', '')}".strip())
    with tempfile.TemporaryDirectory() as home:
        monkeypatch.setenv("SILVA_HOME", home)
        yield Registry.load()


@pytest.mark.weekly  # tasksets that install brings, and bad ones, are played in test_bridge_verifiers.py
async def test_a_taskset_in_a_package_is_installed_beside_verifiers_and_played_by_its_name(registered):
    entry = registered.entry("verifiers/my_taskset")
    assert not registered.broken and entry.requirements[-1] == "my-taskset==1.0.0"
    install(entry)
    async with HostPool(entry, step_timeout=120) as echoes, echoes.lease() as env:
        (task,) = await echoes.tasks()
        assert (await env.reset(task, 0)).messages[0].text == "Say acorn."
        assert (await env.step(assistant("acorn"))).done
        assert (await env.evaluate()).success
