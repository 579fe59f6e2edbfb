"""Under which names Silva's servers answer: a page of another site whose name resolves to here gets nothing."""

from __future__ import annotations

import http.client
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from silva.hosts import VARIABLE, Hosts
from silva.lake import Lake
from silva.models.scripted.script import load_script
from silva.models.scripted.server import ScriptedServer

STRANGERS = ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil", "0.0.0.0", "10.0.0.9", ""]
OURS = ["localhost", "LOCALHOST:9", "127.0.0.1:8000", "127.9.9.9", "[::1]:8000", "page.localhost", "localhost."]


def test_a_listener_of_this_machine_alone_knows_loopback_names_alone() -> None:
    hosts = Hosts("127.0.0.1")
    assert [name for name in STRANGERS if hosts.known(name.encode())] == []
    assert [name for name in OURS if not hosts.known(name.encode())] == []


def test_an_open_listener_knows_the_host_it_was_given_and_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "models.example, proxy.example")
    hosts = Hosts("box.example", "10.0.0.9")
    known = ["box.example:80", "BOX.example", "10.0.0.9", "192.168.0.1:80", "[fe80::1]:80", "proxy.example"]
    assert hosts.known(b"models.example")
    assert [name for name in known if not hosts.known(name.encode())] == []
    assert [name for name in STRANGERS if hosts.known(name.encode())] == ["10.0.0.9"]


def status(url: str, *hosts: str, path: str = "/healthz") -> int:
    """What a server answers to a request with these Host headers."""
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)) as connection:
        connection.putrequest("GET", path, skip_host=True)
        for host in hosts:
            connection.putheader("Host", host)
        connection.endheaders()
        return connection.getresponse().status


def refuses_strangers(url: str) -> None:
    """A server answers to its own names, and to no other."""
    port = urlsplit(url).port
    assert status(url, f"localhost:{port}") == status(url, f"127.0.0.1:{port}") == status(url) != 421
    for host in ("evil.example", f"evil.example:{port}", "10.1.2.3"):
        assert status(url, host) == status(url, host, path="/v1/models") == status(url, host, path="/") == 421
    assert status(url, "localhost", "evil.example") == 421


def test_a_served_model_refuses_strangers_names(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("otherwise: {text: hello}\n")
    with ScriptedServer(load_script(script)) as server:
        refuses_strangers(server.url)


@contextmanager
def serving(*words: str) -> Iterator[str]:
    """A command of Silva's that serves, and the address it says first."""
    process = subprocess.Popen(
        [sys.executable, "-m", "silva", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        assert said.startswith("http"), said
        yield said
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.slow
@pytest.mark.parametrize("listener", ["console", "guide", "gateway", "model", "buffer"])
def test_every_listener_refuses_strangers_names(listener: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SILVA_HOME", str(tmp_path / "home"))
    script = tmp_path / "script.yaml"
    script.write_text("otherwise: {text: hello}\n")
    lake = str(tmp_path / "lake")
    with Lake.open(lake):
        pass
    with ScriptedServer(load_script(script)) as behind:
        served(listener, lake, script, behind.url, tmp_path)


def served(listener: str, lake: str, script: Path, model: str, folder: Path) -> None:
    """Start a listener as people do, and ask it."""
    words = {
        "console": ["console", "--lake", lake],
        "guide": ["guide", "serve", "--lake", lake, "--port", "0"],
        "gateway": ["gateway", "--lake", lake, "--port", "0", "--model", f"m={model}#scripted"],
        "model": ["models", "serve", "--scripted", str(script), "--port", "0"],
        "buffer": ["train", "buffer", "--folder", str(folder / "jobs"), "--port", "0"],
    }[listener]
    with serving(*words) as url:
        refuses_strangers(url)
