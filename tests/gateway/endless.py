"""A backend whose streams never end, for as long as somebody reads them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec


class Endless:
    """`url` is its base; `stopped` is set once a stream could not be written any more."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.stopped = threading.Event()
        self.over = threading.Event()


@contextmanager
def endless(piece: str, pause: float = 0.0) -> Iterator[Endless]:
    """A backend that streams `piece` again and again, so many seconds apart."""
    event = msgspec.json.encode({"model": "endless", "choices": [{"index": 0, "delta": {"content": piece}}]})
    data = b"data: %b\n\n" % event

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            try:
                while not running.over.wait(pause):
                    self.wfile.write(data)
            except OSError:
                running.stopped.set()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running = Endless(f"http://127.0.0.1:{server.server_address[1]}/v1")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield running
    finally:
        running.over.set()
        server.shutdown()
        server.server_close()
