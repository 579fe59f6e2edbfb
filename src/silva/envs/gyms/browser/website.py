"""Sites that Python answers for, reached by name through a proxy of the context's own.

    Chromium ─▶ GET http://shop.test/cart ─▶ Proxy ─▶ sites["shop.test"].respond(Request) ─▶ Response

A name that no site has is refused, and so is every tunnel: what is not a site here cannot be reached.
"""

from __future__ import annotations

import html
import mimetypes
import secrets
import socket
import sys
import threading
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

LARGEST_BODY = 1 << 20
"""Bytes of a form; more is refused."""
USER = "silva"


@dataclass(frozen=True)
class Request:
    """What a browser asks of a site: `GET` or `POST`, a path, the fields of its query and of its form."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Response:
    """What a site answers. `headers` come besides the content's type and length."""

    body: bytes
    status: int = 200
    media_type: str = "text/html; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


class Site(Protocol):
    """One site: whatever answers requests. One request at a time reaches it."""

    def respond(self, request: Request) -> Response:
        """Answer; a request that makes no sense is answered with a page that says so."""
        ...


class Folder:
    """A site of files, read-only."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def respond(self, request: Request) -> Response:
        """The file at the path."""
        path = (self._root / request.path.lstrip("/")).resolve()
        if not path.is_relative_to(self._root) or not path.is_file():
            return page("Not found", "<p>There is no such page.</p>", status=404)
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        if kind.startswith("text/"):
            kind += "; charset=utf-8"
        return Response(path.read_bytes(), media_type=kind)


def page(title: str, body: str, status: int = 200) -> Response:
    """A page; `body` is HTML, the title is not."""
    shown = html.escape(title)
    text = f"<!doctype html><html lang=en><meta charset=utf-8><title>{shown}</title><h1>{shown}</h1>{body}</html>"
    return Response(text.encode(), status)


def redirect(path: str) -> Response:
    """Send the browser on to another page of the site, which it gets afresh."""
    return Response(b"", 303, headers={"Location": path})


class Proxy:
    """Answers for `sites`, by name, on a listening socket; the mapping may be changed between episodes.

    On a loopback that others share (`guarded`), only who knows the password is answered.
    """

    def __init__(self, door: socket.socket, guarded: bool = False) -> None:
        self.sites: Mapping[str, Site] = {}
        self.port: int = door.getsockname()[1]
        self.password = secrets.token_urlsafe(16) if guarded else None
        self.lock = threading.Lock()
        self._server = _Server(door.getsockname(), _Handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = door
        self._server.proxy = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="sites", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more. The socket stays open: its owner closes it."""
        self._server.shutdown()
        self._thread.join(5.0)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    proxy: Proxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Chromium drops connections as pages close.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        """Answer a page."""
        self._answer({})

    def do_POST(self) -> None:
        """Answer a form."""
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            self.close_connection = True
            self._discard(int(length) if length.isdigit() else 0)
            self._send(page("Refused", "<p>The form is too large.</p>", 413))
            return
        body = self.rfile.read(int(length)).decode(errors="replace")
        self._answer(dict(parse_qsl(body, keep_blank_values=True)))

    def do_CONNECT(self) -> None:
        """Refuse a tunnel."""
        self.close_connection = True
        self._send(page("Refused", "<p>There is no way out of here.</p>", 403))

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the trajectory tells it all."""

    def _answer(self, form: Mapping[str, str]) -> None:
        proxy = self.server.proxy
        if proxy.password is not None:
            wanted = "Basic " + b64encode(f"{USER}:{proxy.password}".encode()).decode()
            if not secrets.compare_digest(self.headers.get("Proxy-Authorization", ""), wanted):
                body = page("Refused", "", 407).body
                self._send(Response(body, 407, headers={"Proxy-Authenticate": 'Basic realm="sites"'}))
                return
        asked = urlsplit(self.path)
        site = proxy.sites.get(asked.hostname or "") if asked.scheme == "http" and asked.port in (None, 80) else None
        if site is None:
            self._send(page("Refused", "<p>There is no way to that address from here.</p>", 403))
            return
        query = dict(parse_qsl(asked.query, keep_blank_values=True))
        with proxy.lock:
            self._send(site.respond(Request(self.command, asked.path or "/", query, form)))

    def _discard(self, length: int) -> None:
        """Take in what is not wanted: who is still sending does not hear an answer."""
        left = min(length, 64 * LARGEST_BODY)
        while left > 0 and (read := self.rfile.read(min(left, 1 << 16))):
            left -= len(read)

    def _send(self, response: Response) -> None:
        self.send_response_only(response.status)
        self.send_header("Content-Type", response.media_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("Cache-Control", "no-store")
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(response.body)
