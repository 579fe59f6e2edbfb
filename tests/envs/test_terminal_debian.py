"""Packages of Debian that this machine lacks: fetched by apt from where it fetches, lent to a sandbox as a layer."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest
from test_terminal_tasks import made

from silva.envs.gyms.terminal import debian
from silva.envs.gyms.terminal.dockerfile import Refused, recipe
from silva.envs.gyms.terminal.world import World
from silva.errors import MissingError
from silva.sandbox import open_backend

pytestmark = pytest.mark.skipif(
    any(shutil.which(program) is None for program in ("apt-get", "apt-cache", "dpkg-deb")),
    reason="there is no apt here",
)

POSTINST = """#!/bin/sh
touch /tmp/silva-script-ran
update-alternatives --install /usr/bin/leaf leaf \\
  /usr/bin/leaf.oak 10 --slave /usr/share/leaf.txt leaf.txt /usr/share/oak/leaf.txt
"""


def package(repository: Path, name: str, depends: str, files: dict[str, str], postinst: str = "") -> str:
    """Put a package into a repository; what stands of it in its index."""
    tree = repository / f"{name}-tree"
    control = f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <n@example.org>\n"
    control += f"Depends: {depends}\n" if depends else ""
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(f"{control}Description: a tree\n")
    if postinst:
        (tree / "DEBIAN/postinst").write_text(postinst)
        (tree / "DEBIAN/postinst").chmod(0o755)
    for path, text in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
        (tree / path).chmod(0o755)
    file = repository / f"{name}_1.0_all.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", str(tree), str(file)], check=True, capture_output=True)
    data = file.read_bytes()
    return f"{control}Filename: ./{file.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This machine's apt, with a repository on this machine, and a home of its own."""
    repository = tmp_path / "repository"
    repository.mkdir()
    oak = {
        "usr/bin/leaf.oak": "#!/bin/sh\ncat /usr/share/oak/leaf.txt /etc/silva-oak/leaf.conf; silva-root\n",
        "usr/share/oak/leaf.txt": "green\n",
        "etc/silva-oak/leaf.conf": "set\n",
    }
    index = [
        package(repository, "silva-oak", "silva-root", oak, POSTINST),
        package(repository, "silva-root", "", {"bin/silva-root": "#!/bin/sh\necho deep\n"}),
        package(repository, "silva-broken", "silva-nowhere", {}),
    ]
    (repository / "Packages").write_text("\n".join(index))
    (tmp_path / "lists/partial").mkdir(parents=True)
    (tmp_path / "sources.list").write_text(f"deb [trusted=yes] copy:{repository} ./\n")
    (tmp_path / "apt.conf").write_text(
        f'Dir::State::lists "{tmp_path}/lists"; Dir::Etc::sourcelist "{tmp_path}/sources.list";\n'
        f'Dir::Etc::sourceparts "-"; Dir::Cache "{tmp_path}/cache"; APT::Sandbox::User "root";\n'
    )
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    monkeypatch.setenv("SILVA_HOME", str(tmp_path / "home"))
    subprocess.run(["apt-get", "-qq", "-o", "Debug::NoLocking=1", "update"], check=True, capture_output=True)
    return tmp_path


def test_a_layer_holds_what_was_asked_for_and_what_that_needs(apt: Path) -> None:
    debian.names.cache_clear()
    task = made("FROM debian\nWORKDIR /app\nRUN apt-get update && apt-get install -y silva-oak\n")
    assert recipe(task).debian == ("silva-oak",)
    with pytest.raises(Refused, match=r"line 1: neither .* has all packages: apt-get install silva-elm$"):
        recipe(made("FROM debian\nWORKDIR /app\nRUN apt-get install -y silva-oak silva-elm\n"))
    layer = debian.fetched(("silva-oak", "dpkg"), "mine")
    assert layer is not None
    assert (layer / "packages.txt").read_text() == "silva-oak\n\nsilva-oak==1.0\nsilva-root==1.0\n"
    assert (layer / "usr/bin/leaf").readlink() == Path("/usr/bin/leaf.oak")
    assert (layer / "bin").is_symlink() and (layer / "usr/bin/silva-root").is_file()
    assert not Path("/tmp/silva-script-ran").exists() and not (layer / "archives").exists()
    shutil.rmtree(apt / "repository")
    assert debian.fetched(("silva-oak",), "mine") == layer, "once"
    with pytest.raises(MissingError, match=r"task mine: silva-broken cannot be installed: .*broken packages"):
        debian.fetched(("silva-broken",), "mine")


@pytest.mark.slow
async def test_a_task_finds_its_packages_where_they_belong(apt: Path) -> None:
    debian.names.cache_clear()
    task = made("FROM debian\nWORKDIR /app\nRUN apt-get update && apt-get install -y silva-oak\n")
    backend = await open_backend("namespaces")
    if backend.capabilities().files != "overlay":
        await backend.close()
        pytest.skip("there are no overlays here")
    try:
        world = await World.build(backend, task)
        done = await world.sandbox.exec("leaf; ls /usr/bin/env; touch /usr/share/oak/x", seconds=20.0)
        assert done.stdout == b"green\nset\ndeep\n/usr/bin/env\n" and b"Read-only" in done.stderr
        await world.end()
    finally:
        await backend.close()
