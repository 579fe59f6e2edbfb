"""A Ray cluster of two nodes with one CPU each: `with two_nodes() as cluster`. It runs in a process of its own, which
takes orders on standard input: `kill` ends the second node as a power cut would, `add` starts another."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

TOKEN = os.environ["RAY_AUTH_TOKEN"]
"""Of every cluster that tests meet; see the tests' conftest."""

has_ray = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not has_ray, reason="ray is not installed: pip install 'ray[serve]==2.60.0'")


class TwoNodes:
    """A running cluster. `address` is HOST:PORT; the token stands in the environment."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.address = self._said()

    def kill_node(self) -> None:
        """End the second node."""
        self._order("kill")

    def add_node(self) -> None:
        """Start a second node again."""
        self._order("add")

    def _order(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n".encode())
        self._process.stdin.flush()
        assert self._said() == word

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().strip()


@contextmanager
def two_nodes(log: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TwoNodes]:
    """The cluster, with a token that whoever connects from here has too."""
    for name, value in {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": TOKEN,
        "RAY_raylet_start_wait_time_s": "240",
    }.items():
        monkeypatch.setenv(name, value)
    variables = {**os.environ, "SILVA_HOME": str(log.parent / "home")}  # where no environment is installed
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=variables
        )
    try:
        cluster = TwoNodes(process)
        assert ":" in cluster.address, log.read_text()[-2000:]
        yield cluster
    finally:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        try:
            process.wait(60)
        finally:
            process.kill()
            process.stdout.close()


def main() -> None:
    """Serve the cluster until standard input ends."""
    from ray.cluster_utils import Cluster

    # Each helper process of a node that is left out saves seconds of its start.
    shape = {"num_cpus": 1, "include_dashboard": False, "include_log_monitor": False}
    shape["object_store_memory"] = 80_000_000
    cluster = Cluster(initialize_head=True, head_node_args={**shape, "no_monitor": True})
    second = cluster.add_node(**shape)
    sys.stdout.write(f"{cluster.address}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        if line.strip() == "kill":
            cluster.remove_node(second, allow_graceful=False)
        else:
            second = cluster.add_node(**shape)
        sys.stdout.write(line)
        sys.stdout.flush()
    cluster.shutdown()


if __name__ == "__main__":
    main()
