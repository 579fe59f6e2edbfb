"""Ports for servers of our own: who answers there is the server we started, or nobody is taken for it."""

from __future__ import annotations

import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import aiohttp
import pytest

from silva.errors import UnreachableError
from silva.models.child import Process, free_port
from silva.models.gateway.config import ProcessBackends
from silva.models.gateway.providers.worker import Failed, Worker
from silva.models.local.vllm import VllmOptions, serve_vllm


class Stranger(BaseHTTPRequestHandler):
    """Well, whoever asks."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


def stranger_at(port: int) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", port), Stranger)
    Thread(target=server.serve_forever, daemon=True).start()
    return server


def test_a_free_port_is_none_that_the_system_gives_to_whoever_asks() -> None:
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    found = [free_port() for _ in range(50)]
    assert all(not first <= port <= last for port in found)
    assert len(set(found)) > 45  # two processes that ask at once seldom get the same
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", found[0]))


async def test_a_stranger_on_the_port_is_not_taken_for_the_server_that_was_started() -> None:
    command = (sys.executable, "-c", "import time; time.sleep(60)", "{port}")
    worker = Worker("policy-1", ProcessBackends(provider="process", command=command))
    server = stranger_at(int(worker.backend.url.rpartition(":")[2].partition("/")[0]))
    try:
        async with aiohttp.ClientSession() as http:
            with pytest.raises(Failed, match="policy-1: another process listens on its port"):
                await worker.start(http)
    finally:
        server.shutdown()
        server.server_close()
        await worker.stop()


def test_a_port_that_is_anothers_is_said_instead_of_its_url(tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_text('#!/bin/sh\n[ "$1" = -c ] || exec sleep 60\n')
    script.chmod(0o755)
    server = stranger_at(0)
    said: list[str] = []
    try:
        options = VllmOptions(port=server.server_port, python=str(script))
        with pytest.raises(UnreachableError, match=rf"port {server.server_port} of 127.0.0.1 is another server's"):
            serve_vllm(Path("weights"), options, said.append)
    finally:
        server.shutdown()
        server.server_close()
    assert said == []


def test_who_listens_from_a_child_of_the_process_was_not_there_before() -> None:
    port = free_port()
    program = f"""if True:
        import os, socket, time
        if not os.fork():
            listening = socket.create_server(("127.0.0.1", {port}))
            print("here", flush=True)
        time.sleep(60)
    """
    process = Process([sys.executable, "-c", program], {})
    said = process.popen.stdout
    assert said is not None
    try:
        assert said.readline() == b"here\n"
        assert not process.forestalled(port)
    finally:
        process.stop_now()
        said.close()
