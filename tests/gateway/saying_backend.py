"""A backend on a real socket that says what it is told to, to the byte."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Backend:
    """Says what it is told to, and keeps what it was asked."""

    def __init__(self) -> None:
        self.said = b""
        self.kind = "application/json"
        self.asked: list[Any] = []
        self.headers: list[dict[str, str]] = []
        backend = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                backend.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                backend.headers.append({name.lower(): value for name, value in self.headers.items()})
                self.send_response(200)
                self.send_header("Content-Type", backend.kind)
                self.send_header("Content-Length", str(len(backend.said)))
                self.end_headers()
                self.wfile.write(backend.said)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def says(self, *said: Any, stream: bool = False) -> None:
        self.kind = "text/event-stream" if stream else "application/json"
        pieces = [b"data: " + (one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n\n" for one in said]
        self.said = b"".join(pieces) if stream else json.dumps(said[0]).encode()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
