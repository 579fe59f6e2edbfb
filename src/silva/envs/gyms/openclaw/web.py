"""One web server for all that speaks HTTP: pages, a chat, a package index, a crontab and a calendar (radicale).

    curl in the sandbox ─ as its proxy ─▶ Web ─ by the name of the host ─▶ radicale · chat · packages · cron · pages

Being the sandbox's proxy it is whatever host is asked for: names need no resolver and addresses are the same in every
episode. What is posted to any page is kept, wherever it was meant to go.
"""

from __future__ import annotations

import base64
import io
import json
import logging
import threading
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from silva.errors import UsageError
from silva.tree import Json

CALENDAR, CHAT, CRON, PACKAGES = (f"{name}.corp.example" for name in ("calendar", "chat", "cron", "packages"))
COLLECTION = "/robin/work/"
_MOST_BODY = 1 << 20
_MOST_KEPT = 500
_Start = Callable[..., Any]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is nothing to tell."""


class _Handler(WSGIRequestHandler):
    timeout = 30

    def get_environ(self) -> dict[str, Any]:
        """A proxy is asked with the whole address: its host is the one that counts."""
        host = self.headers.get("Host", "")
        if "://" in self.path:
            parts = urlsplit(self.path)
            host, self.path = parts.netloc, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        environ = super().get_environ()
        environ["HTTP_HOST"] = host
        return environ

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""


class Web:
    """The server. `chat`, `cron`, `posts`, `visits` and `fetched` are its state, the calendar's is in `folder`."""

    def __init__(self, services: Json, folder: Path) -> None:
        self.chat: dict[str, list[Json]] = {name: list(said) for name, said in (services.get("chat") or {}).items()}
        self.cron = str(services.get("cron") or "")
        self.posts: list[Json] = []
        self.visits: list[str] = []
        self.fetched: list[str] = []
        self._pages = {str(url): str(text) for url, text in (services.get("pages") or {}).items()}
        self._wheels = {name: wheel for name, wheel in map(_wheel, services.get("packages") or ())}
        self._summaries = {str(each["name"]): str(each.get("summary", "")) for each in services.get("packages") or ()}
        self._calendar = _calendar(folder)
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self.port = 0

    def start(self) -> None:
        """Listen; `port` is where."""
        self._server = server = _Server(("127.0.0.1", 0), _Handler)
        server.set_app(self._answer)
        self.port = server.server_address[1]
        self._thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True, name="silva-web")
        self._thread.start()

    def stop(self) -> None:
        """Listen no longer."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    @property
    def serving(self) -> bool:
        """Whether it listens."""
        return self._server is not None and self._thread is not None and self._thread.is_alive()

    def asked(self, method: str, path: str, body: bytes = b"", kind: str = "text/calendar") -> bytes:
        """Ask the calendar from this side.

        Raises:
            UsageError: it refuses.
        """
        status: list[str] = []
        environ = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "CONTENT_LENGTH": str(len(body)),
            "CONTENT_TYPE": kind,
            "SERVER_NAME": CALENDAR,
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "SCRIPT_NAME": "",
            "HTTP_HOST": CALENDAR,
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": io.StringIO(),
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        said = b"".join(self._dated(environ, lambda line, *_: status.append(line)))
        if not status or status[0][0] != "2":
            raise UsageError(f"services.calendar: {method} {path}: {status[:1]}")
        return said

    def state(self) -> Json:
        """All of it but the calendar."""
        with self._lock:
            kept: Json = {"chat": self.chat, "cron": self.cron, "posts": self.posts}
            kept |= {"visits": self.visits, "fetched": self.fetched}
            return json.loads(json.dumps(kept))

    def _answer(self, environ: dict[str, Any], start: _Start) -> Iterable[bytes]:
        host = environ["HTTP_HOST"].partition(":")[0].lower()
        if environ["REQUEST_METHOD"] == "CONNECT":
            return _say(start, 501, "https is not served here: ask by http")
        if host == CALENDAR:
            return self._dated(environ, start)
        try:
            length = int(environ.get("CONTENT_LENGTH") or 0)
        except ValueError:
            return _say(start, 400, "no length")
        if length > _MOST_BODY:
            return _say(start, 413, "at most 1 MB")
        body = environ["wsgi.input"].read(length).decode("utf-8", "replace") if length else ""
        # wsgiref gives the path as latin-1 of its bytes.
        path = environ["PATH_INFO"].encode("latin-1", "replace").decode("utf-8", "replace")
        with self._lock:
            if host == CHAT:
                return self._chatted(environ, path, body, start)
            if host == CRON:
                if environ["REQUEST_METHOD"] == "PUT":
                    self.cron = body
                return _say(start, 200, self.cron)
            if host == PACKAGES:
                return self._packaged(path, start)
            return self._paged(environ, f"http://{host}{path}", body, start)

    def _dated(self, environ: dict[str, Any], start: _Start) -> Iterable[bytes]:
        # The sandbox has one user: whoever asks is that one.
        environ["HTTP_AUTHORIZATION"] = "Basic " + base64.b64encode(b"robin:robin").decode()
        return self._calendar(environ, start)

    def _chatted(self, environ: dict[str, Any], path: str, body: str, start: _Start) -> Iterable[bytes]:
        name = path.strip("/")
        if not name:
            return _say(start, 200, json.dumps(sorted(self.chat)))
        if environ["REQUEST_METHOD"] == "POST":
            said = self.chat.setdefault(name, [])
            if len(said) < _MOST_KEPT:
                said.append({"by": "robin", "text": body})
            return _say(start, 200, "sent")
        if name not in self.chat:
            return _say(start, 404, f"there is no channel {name}; there are {', '.join(sorted(self.chat))}")
        return _say(start, 200, json.dumps(self.chat[name]))

    def _packaged(self, path: str, start: _Start) -> Iterable[bytes]:
        """PEP 503's index; /search is our own."""
        parts = [part for part in path.split("/") if part]
        if parts == ["search"]:
            return _say(start, 200, json.dumps(self._summaries))
        if parts == ["simple"]:
            links = "".join(f'<a href="/simple/{name}/">{name}</a><br>' for name in self._summaries)
            return _say(start, 200, f"<!DOCTYPE html><html><body>{links}</body></html>", "text/html")
        if len(parts) == 2 and parts[0] == "simple":
            own = [wheel for wheel in self._wheels if wheel.split("-")[0] == parts[1].lower().replace("-", "_")]
            links = "".join(f'<a href="/files/{wheel}">{wheel}</a><br>' for wheel in own)
            if own:
                return _say(start, 200, f"<!DOCTYPE html><html><body>{links}</body></html>", "text/html")
        if len(parts) == 2 and parts[0] == "files" and parts[1] in self._wheels:
            self.fetched.append(parts[1])
            start("200 OK", [("Content-Type", "application/octet-stream")])
            return [self._wheels[parts[1]]]
        return _say(start, 404, "there is no such package")

    def _paged(self, environ: dict[str, Any], url: str, body: str, start: _Start) -> Iterable[bytes]:
        query = environ.get("QUERY_STRING", "")
        if len(self.visits) < _MOST_KEPT:
            self.visits.append(url + (f"?{query}" if query else ""))
        # What is put into a query has left as much as what is posted.
        carried = body or (json.dumps({k: v for k, v in parse_qs(query).items()}) if query else "")
        if (body or environ["REQUEST_METHOD"] in ("POST", "PUT", "DELETE") or query) and len(self.posts) < _MOST_KEPT:
            self.posts.append({"url": url, "method": environ["REQUEST_METHOD"], "body": unquote(carried)})
        page = self._pages.get(url) or self._pages.get(url.rstrip("/"))
        if page is None and environ["REQUEST_METHOD"] in ("POST", "PUT"):
            return _say(start, 200, "taken")
        if page is None:
            return _say(start, 404, f"there is no page {url}")
        return _say(start, 200, page, "text/html" if page.lstrip().startswith("<") else "text/plain")


def _say(start: _Start, code: int, text: str, kind: str = "text/plain") -> list[bytes]:
    start(f"{code} {'OK' if code == 200 else 'Refused'}", [("Content-Type", f"{kind}; charset=utf-8")])
    return [(text + "\n").encode()]


def _calendar(folder: Path) -> Any:
    """radicale on a folder, with the one user's collection made."""
    from radicale import config as settings
    from radicale.app import Application

    logging.getLogger("radicale").setLevel(logging.CRITICAL)  # it warns that nobody logs in
    configuration = settings.load()
    told = {
        "auth": {"type": "none"},
        "storage": {"type": "multifilesystem", "filesystem_folder": str(folder), "_filesystem_fsync": "False"},
        "rights": {"type": "owner_only"},
        "logging": {"level": "critical"},
    }
    configuration.update(told, "silva", privileged=True)
    return Application(configuration)


def _wheel(package: Json) -> tuple[str, bytes]:
    """A package of a task as a wheel.

    Raises:
        UsageError: it has no name, version or files.
    """
    try:
        name, version, files = str(package["name"]).replace("-", "_").lower(), str(package["version"]), package["files"]
        made = io.BytesIO()
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(made, "w") as archive:
            for path, text in files.items():
                archive.writestr(str(path), str(text))
            summary = str(package.get("summary", ""))
            metadata = f"Metadata-Version: 2.1\nName: {package['name']}\nVersion: {version}\nSummary: {summary}\n"
            archive.writestr(f"{info}/METADATA", metadata)
            archive.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: silva\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr(f"{info}/RECORD", "")
    except (KeyError, AttributeError, TypeError) as error:
        raise UsageError(f"services.packages: a package has name, version and files: {error}") from error
    return f"{name}-{version}-py3-none-any.whl", made.getvalue()
