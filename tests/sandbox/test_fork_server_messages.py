"""No message of one sandbox ends another's: what agents type is carried whole or refused, and the fork server's loop
outlives whatever it is sent."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import silva.sandbox
from silva.errors import UsageError
from silva.sandbox.forkserver.serve import LARGEST, SENDING
from silva.sandbox.namespaces import Namespaces

FOLDER = Path(silva.sandbox.__file__).parent
SCRIPT = "import sys; sys.path.insert(0, sys.argv[1]); from forkserver.serve import main; main(int(sys.argv[2]))"

letters = st.sampled_from(["é", "\x01", "\ud800", "\udcff", "😀", '"', "\\", "x", "\n", "\u202e"])
words = st.builds(lambda letter, size: letter * size, letters, st.integers(0, 150_000)) | st.text(max_size=50)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_an_argument_arrives_as_it_is_or_is_refused_and_the_neighbour_lives(
    backend: Namespaces, data: st.DataObject
) -> None:
    word, name = data.draw(words), data.draw(st.sampled_from(["A", "", "B=C", "Ü"]))
    async with await backend.create() as sandbox, await backend.create() as neighbour:
        try:
            done = await sandbox.exec(["printf", "%s", word], variables={name: word[:1000]})
            if done.code != 126:  # the kernel takes no argument of more than 128 KiB
                assert done.stdout == word.encode("utf-8", "surrogateescape")
        except UsageError as error:
            assert "\n" not in str(error)
        assert (await neighbour.exec("echo alive")).text == "alive\n"
        assert (await sandbox.exec("echo alive")).text == "alive\n"


@pytest.mark.parametrize("size", [20_000, 45_000, 60_000, 100_000])
async def test_a_long_word_that_is_not_ascii_is_a_command_like_others(backend: Namespaces, size: int) -> None:
    sandbox, neighbour = await backend.create(), await backend.create()
    if 2 * size <= 128 << 10:
        assert (await sandbox.exec(["printf", "%s", "é" * size])).text == "é" * size
    else:
        with pytest.raises(UsageError, match="too long"):
            await sandbox.exec(["printf", "%s", "é" * size])
    assert (await neighbour.exec("echo alive")).text == "alive\n"


@contextmanager
def fork_server() -> Iterator[socket.socket]:
    """A fork server of one's own, and the way to it."""
    mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    mine.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENDING)
    command = [sys.executable, "-I", "-S", "-c", SCRIPT, str(FOLDER), str(other.fileno())]
    with subprocess.Popen(command, pass_fds=[other.fileno()], env={"PATH": os.defpath}, cwd="/") as process:
        other.close()
        mine.settimeout(20)
        mine.send(json.dumps({"do": "settings", "filter": "", "folder": "", "groups": [], "labels": False}).encode())
        yield mine
        assert process.poll() is None
        mine.close()
        assert process.wait(20) == 0


def lives(server: socket.socket, number: int) -> bool:
    """Whether it still starts a program and hears of its end."""
    nothing = os.open(os.devnull, os.O_RDWR)
    message: dict[str, Any] = {"do": "enter", "number": number, "sandbox": 0, "user": None, "uid": 0, "deputy": 0}
    message |= {"limits": {}, "terminal": False, "folder": "/", "arguments": ["true"], "variables": {}}
    try:
        socket.send_fds(server, [json.dumps(message).encode()], [nothing] * 3)
    finally:
        os.close(nothing)
    while True:
        heard = json.loads(server.recv(1 << 16))
        if heard.get("number") == number and heard["event"] != "started":
            return heard["event"] == "ended" and heard["code"] == 0


ACTIONS = ["enter", "stop", "listen", "signal", "halt", "adopt", "dismiss", "settings", "loopback", "dump", "nonsense"]
KEYS = ["number", "sandbox", "first", "user", "uid", "deputy", "limits", "terminal", "folder", "arguments", "signal"]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
messages = st.dictionaries(st.sampled_from(KEYS), values).flatmap(
    lambda body: st.sampled_from(ACTIONS).map(lambda action: json.dumps({**body, "do": action}).encode())
)


@settings(max_examples=10, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    st.lists(messages | st.binary(min_size=1, max_size=300) | values.map(lambda v: json.dumps(v).encode()), max_size=8)
)
def test_the_loop_outlives_whatever_it_is_sent(sent: list[bytes]) -> None:
    with fork_server() as server:
        for message in sent:
            server.send(message)
        assert lives(server, 987_654_321)


def test_a_message_that_is_cut_and_a_nest_without_end_cost_themselves_alone() -> None:
    with fork_server() as server:
        server.send(b'{"do": "signal", "number": 1, "signal": 9, "x": "' + b"x" * LARGEST + b'"}')
        server.send(b"[" * 100_000)
        assert lives(server, 7)


def test_a_process_that_is_no_child_of_it_is_not_taken_in_and_not_killed() -> None:
    with subprocess.Popen(["sleep", "600"]) as stranger, fork_server() as server:
        server.send(json.dumps({"do": "adopt", "number": 3, "pid": stranger.pid}).encode())
        server.send(json.dumps({"do": "signal", "number": 3, "signal": 9}).encode())
        assert lives(server, 8)
        assert stranger.poll() is None
        stranger.kill()
