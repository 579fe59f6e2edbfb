"""Connections that lead out of a sandbox are known as that; those between its own programs are not."""

from __future__ import annotations

import pytest

from silva.sandbox.capabilities import Fidelity
from silva.sandbox.connections import outside
from silva.sandbox.layers import Layers
from silva.sandbox.namespaces import Namespaces
from silva.sandbox.protocol import Spec

PAIR = """
import socket, time
a = socket.create_server(("127.0.0.1", 0)); b = socket.create_connection(a.getsockname()); c, _ = a.accept()
d = socket.create_server(("::1", 0), family=socket.AF_INET6); e = socket.create_connection(d.getsockname()[:2])
f, _ = d.accept()
print("paired", flush=True); time.sleep(100)
"""
OUT = """
import socket, time
a = socket.create_connection(("127.0.0.1", 3128)); print("out", flush=True); time.sleep(100)
"""


@pytest.mark.slow
async def test_only_connections_whose_other_end_is_outside_are_named(backend: Namespaces) -> None:
    sandbox = await backend.create(Spec(network=("allowed.test",)))
    inner = await sandbox.session(["python3", "-c", PAIR])
    assert await inner.until("paired", within=30)
    assert outside(sandbox._pid, sandbox.processes()) == ()
    outer = await sandbox.session(["python3", "-c", OUT])
    assert await outer.until("out", within=30)
    assert outside(sandbox._pid, sandbox.processes()) == ("127.0.0.1:3128",)


def test_a_snapshot_with_such_a_connection_is_not_exact(tmp_path) -> None:
    store = Layers(tmp_path / "kept")

    def take(copy, images) -> None:
        for place in (copy / "workspace", copy / "rest", images):
            place.mkdir(parents=True)

    for note, fidelity in (("", Fidelity.EXACT), ("connections to 127.0.0.1:3128 are broken", Fidelity.PROCESSES)):
        kept = store.adopt(tmp_path / "top", "", (), "", copy=True, take=take, note=note)
        assert store.find(kept.id).fidelity == fidelity and store.find(kept.id).note == note
