"""What a stranger installs: an sdist, the wheel built from it, and that wheel with what it needs, in an empty place.

the checkout ─▶ sdist ─▶ wheel ─▶ an empty environment ─▶ commands, a run, the console, an environment of one's own
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from email.parser import Parser
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

import silva

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def install(programs: Path, *what: str) -> None:
    """Install into the environment of `programs`, as its own pip would; nothing is compiled, which takes longest."""
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", "-q", "--no-compile"]
    said = subprocess.run([*pip, "--disable-pip-version-check", *what], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr[-3000:]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("dist")
    # the wheel is built from the sdist, so the sdist is whole, too
    command = [sys.executable, "-m", "build", "--outdir", str(made), str(ROOT)]
    said = subprocess.run(command, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout[-3000:] + said.stderr[-3000:]
    (found,) = made.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment that holds the wheel, what it depends on, and pytest."""
    folder = tmp_path_factory.mktemp("empty") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    install(folder / "bin", str(wheel), "pytest")
    return folder / "bin"


@pytest.fixture
def run(installed: Path, tmp_path: Path):
    """Run a program of that environment in an empty folder, as somebody who has nothing else; what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SILVA", "VIRTUAL"))}
    env = {**kept, "PATH": f"{installed}{os.pathsep}{os.environ['PATH']}", "SILVA_HOME": str(tmp_path / "home")}

    def ran(program: str, *words: str) -> str:
        said = subprocess.run([str(installed / program), *words], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert said.returncode == 0, f"{program} {' '.join(words)}: {said.stdout[-2000:]}{said.stderr[-2000:]}"
        return said.stdout

    ran.env = env  # type: ignore[attr-defined]
    return ran


def test_the_wheel_holds_every_file_of_the_package_and_says_what_it_is(wheel: Path) -> None:
    there = (path.relative_to(ROOT / "src") for path in (ROOT / "src/silva").rglob("*") if path.is_file())
    wanted = {path.as_posix() for path in there if "__pycache__" not in path.parts}
    with zipfile.ZipFile(wheel) as packed:
        held = {name for name in packed.namelist() if name.startswith("silva/")}
        (about,) = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        facts = Parser().parsestr(packed.read(about).decode())
        assert any(name.endswith("licenses/LICENSE") for name in packed.namelist())
    assert wanted and held == wanted
    assert (facts["Name"], facts["Version"], facts["License-Expression"]) == ("silva", silva.__version__, "Apache-2.0")
    assert facts["Requires-Python"] == ">=3.11" and "# Silva" in facts.get_payload()
    (source,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(source) as packed:
        top = {name.split("/")[1] for name in packed.getnames() if "/" in name}
    assert {"src", "docs", "examples", "README.md", "CHANGELOG.md", "AGENTS.md", "LICENSE"} <= top


def test_commands_and_a_run_of_a_built_in_environment(run, tmp_path: Path) -> None:
    assert run("silva", "--version") == f"silva {silva.__version__}\n"
    assert {"sandboxes", "environments"} <= {
        finding["topic"] for finding in json.loads(run("silva", "doctor", "--json"))
    }
    (tmp_path / "says.yaml").write_text('otherwise: {text: "42"}\n')
    arguments = ("--env", "arithmetic", "--model", "scripted:says.yaml", "--limit", "3", "--run", "first", "--json")
    done = json.loads(run("silva", "rollout", *arguments))
    assert done["remaining"] == 0 and done["summary"]["attempts"] == 3
    run("silva", "report", "--run", "first", "-o", "first.html")
    assert "first" in (tmp_path / "first.html").read_text()


def test_the_console_serves_its_page_and_all_its_files(run, installed: Path, tmp_path: Path) -> None:
    run("silva", "rollout", "--env", "arithmetic", "--policy", "expert", "--limit", "1", "--run", "seen")
    command = [str(installed / "silva"), "console"]
    with subprocess.Popen(command, cwd=tmp_path, env=run.env, stdout=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stdout is not None
            address = serving.stdout.readline().strip()
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
            page = opener.open(address, timeout=60).read().decode()
            assert "<title>" in page
            for file in (ROOT / "src/silva/console/static").glob("*.*"):
                if file.name != "index.html":
                    served = opener.open(f"{address.split('/?')[0]}/static/{file.name}", timeout=60).read()
                    assert served == file.read_bytes()
        finally:
            serving.terminate()
            serving.wait(60)


def test_an_environment_of_ones_own_installs_and_passes(run, installed: Path, tmp_path: Path) -> None:
    run("silva", "envs", "new", "tidy-shelf")
    install(installed, str(tmp_path / "tidy-shelf"))
    said = run("silva", "envs", "test", "tidy-shelf")
    assert said.count("ok\n") == 2 and "tidy-shelf test: expert 1.000 on 20 of 20 tasks" in said
    assert "2 passed" in run("python", "-m", "pytest", "tidy-shelf")
    words = ("--env", "tidy-shelf", "--policy", "expert", "--limit", "2", "--run", "expert", "--json")
    done = json.loads(run("silva", "rollout", *words))
    assert done["summary"]["success"]["value"] == 1.0
