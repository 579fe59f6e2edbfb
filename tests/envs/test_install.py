"""Real virtual environments from tiny local packages: pins that clash side by side, installs cut off or at once."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from importlib.machinery import ModuleSpec
from pathlib import Path

import msgspec
import pytest

import silva
from silva.envs import EnvironmentEntry, HostPool
from silva.envs.install import MARKER, InstallError, install, installed, links, location, satisfied_here
from silva.errors import UsageError

ENVIRONMENT = """
    import tiny_world
    from silva.envs.protocol import Capabilities, Evaluation, Observation
    from silva.tree import Task, user

    class Tiny:
        capabilities = Capabilities()

        @classmethod
        def tasks(cls, split="test"):
            yield Task(id="tiny/0", env="tiny")

        async def reset(self, task, seed):
            return Observation(messages=(user(tiny_world.VERSION),))

        async def step(self, action):
            return Observation(done=True)

        async def evaluate(self):
            return Evaluation(score=1.0, success=True)

        async def close(self):
            pass
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A SILVA_HOME of its own, pip without an index (all it needs is in a folder), and `tiny_world` 1.0 and 2.0."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for version in ("1.0", "2.0"):
        _wheel(wheels, version, ENVIRONMENT)
    _wheel_of_installed("msgspec", wheels)
    monkeypatch.setenv("SILVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return tmp_path / "home"


def _wheel(folder: Path, version: str, environment: str) -> None:
    import zipfile

    with zipfile.ZipFile(folder / f"tiny_world-{version}-py3-none-any.whl", "w") as wheel:
        info = f"tiny_world-{version}.dist-info"
        wheel.writestr("tiny_world/__init__.py", f"VERSION = {version!r}\n")
        wheel.writestr("tiny_world/env.py", textwrap.dedent(environment))
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-world\nVersion: {version}\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def _wheel_of_installed(name: str, folder: Path) -> None:
    """Pack an installed distribution as a wheel again, so that the test needs no network."""
    import zipfile
    from importlib.metadata import distribution

    found = distribution(name)
    tag = next(line[5:] for line in (found.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: "))
    with zipfile.ZipFile(folder / f"{name}-{found.version}-{tag}.whl", "w") as wheel:
        for file in found.files or ():
            if ".." not in str(file) and "__pycache__" not in str(file):
                wheel.write(str(file.locate()), str(file))


def entry(version: str = "1.0", **more) -> EnvironmentEntry:
    return EnvironmentEntry(
        name="tiny", target="tiny_world.env:Tiny", summary="", requirements=(f"tiny-world=={version}",), **more
    )


async def opening(made: EnvironmentEntry) -> str:
    async with HostPool(made) as pool, pool.lease() as env:
        (task,) = await pool.tasks()
        return (await env.reset(task, 0)).messages[0].text


async def test_two_environments_whose_pins_clash_run_side_by_side(home):
    for version in ("1.0", "2.0"):
        install(entry(version))
    async with HostPool(entry("1.0")) as one, HostPool(entry("2.0")) as two, one.lease() as a, two.lease() as b:
        (task,) = await one.tasks()
        assert (await a.reset(task, 0)).messages[0].text == "1.0"
        assert (await b.reset(task, 0)).messages[0].text == "2.0"


@pytest.mark.slow
def test_nothing_of_this_interpreter_leaks_in(home):
    folder = install(entry())
    code = "import silva.envs.host, importlib.util as u; print(u.find_spec('pytest'))"
    environ = {**os.environ, "PYTHONPATH": str(links(entry()))}
    said = subprocess.run([folder / "bin" / "python", "-c", code], capture_output=True, text=True, env=environ)
    assert said.stdout.strip() == "None", said.stderr


def test_hosts_see_the_silva_that_starts_them_and_no_earlier_checkouts(home, monkeypatch, tmp_path):
    ours = links(entry())
    assert (ours / "silva").resolve() == Path(silva.__file__).parent
    other = tmp_path / "checkout" / "silva"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("")
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: ModuleSpec(name, None, origin=str(other / "__init__.py"))
    )
    theirs = links(entry())
    assert theirs != ours and (theirs / "silva").resolve() == other
    assert links(entry()) == theirs


def test_entries_of_the_same_pins_share_one_folder():
    other = msgspec.structs.replace(entry(), name="another")
    assert location(other) == location(entry()) != location(entry("2.0"))


def _interrupt_an_install() -> None:
    process = subprocess.Popen(_installing(), env=_environ(), start_new_session=True)
    site = location(entry()) / "lib"
    while not site.exists():
        assert process.poll() is None
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


async def test_an_interrupted_install_is_noticed_and_built_anew(home):
    _interrupt_an_install()
    assert location(entry()).exists() and not installed(entry())
    with pytest.raises(Exception, match="run: silva envs install tiny"):
        await opening(entry())
    said: list[str] = []
    install(entry(), said.append)
    assert said[0] == "removing what an earlier install left"
    assert await opening(entry()) == "1.0"


def _install_twice_at_once() -> list[str]:
    running = [subprocess.Popen(_installing(), env=_environ(), stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    return said


@pytest.mark.slow
async def test_two_installs_at_once_build_once(home):
    said = _install_twice_at_once()
    assert sorted(bool(text) for text in said) == [False, True]
    assert await opening(entry()) == "1.0"


@pytest.mark.slow
def test_a_second_install_does_nothing(home):
    folder = install(entry())
    before = (folder / MARKER).stat().st_mtime_ns
    said: list[str] = []
    install(entry(), said.append)
    assert said == [] and (folder / MARKER).stat().st_mtime_ns == before


def test_pips_error_is_told_in_one_line(home):
    with pytest.raises(InstallError, match="envs install tiny: pip failed: ERROR: No matching distribution") as caught:
        install(entry("9.9"))
    assert "\n" not in str(caught.value)
    assert not installed(entry("9.9"))


@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm here")
def test_what_npm_brings_stands_in_the_same_folder_and_its_error_is_told_in_one_line(home, tmp_path, monkeypatch):
    package = tmp_path / "leaf"
    package.mkdir()
    (package / "package.json").write_text('{"name": "leaf", "version": "1.0.0"}')
    made = entry(node=(str(package),))
    assert location(made) != location(entry()) and not satisfied_here(made)
    assert (install(made) / "node_modules" / "leaf" / "package.json").is_file() and installed(made)
    gone = entry(node=(str(tmp_path / "gone"),))
    with pytest.raises(InstallError, match=r"npm could not install .*gone: "):
        install(gone)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InstallError, match="npm is not here; install it first"):
        install(gone)
    assert not installed(gone)


def test_nothing_to_install_is_said(home):
    with pytest.raises(UsageError, match="needs no install"):
        install(EnvironmentEntry(name="plain", target="a:B", summary=""))


def _installing() -> list[str]:
    script = f"""
        import msgspec
        from silva.envs import EnvironmentEntry
        from silva.envs.install import install
        entry = msgspec.convert({msgspec.to_builtins(entry())!r}, EnvironmentEntry)
        install(entry, lambda line: print(line, flush=True))
    """
    return [sys.executable, "-c", textwrap.dedent(script)]


def _environ() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
