"""The web hook: what happens to the runs of a lake, sent to one URL as JSON, so that a chat tool can tell people.

    events of every run ─▶ a thread reads them, run by run ─▶ POST, tried again ─▶ the place reached is kept

It reads files that the engine writes anyway, so no agent waits for it. Each event is sent at least once, and carries an
id by which a receiver knows one it has seen. What was there before a hook was first set up is not sent.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from silva.errors import SilvaError, UsageError
from silva.guide.event import Events
from silva.guide.mailroom import folder_of
from silva.lake import Lake
from silva.tree import Run, digest

log = logging.getLogger(__name__)

TRIES = 6
"""How often an event is sent before it is given up; the pause doubles from `PAUSE` seconds."""

PAUSE = 0.5
_LOOK = 0.3
_RUNS = 2.0
_SECONDS = 10.0


class _Cursor(msgspec.Struct):
    """How far a hook has come: by run, the place in its events; and the runs whose end was sent, or not to be sent."""

    places: dict[str, int] = {}
    ended: list[str] = []


class Hook:
    """Sends what happens.

    Args:
        lake: where the lake is.
        url: where to send to.
        secret: signs each body (`X-Silva-Signature: sha256=…`, HMAC) where it is not empty.

    Raises:
        UsageError: the url is none.
    """

    def __init__(self, lake: str, url: str, secret: str = "", *, pause: float = PAUSE) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise UsageError(f"the hook {url[:80]!r} is no http:// or https:// url")
        self._where, self._url, self._secret, self._pause = lake, url, secret.encode(), pause
        self._folder = folder_of(lake)
        self._file = self._folder / f"hook-{hashlib.sha256(url.encode()).hexdigest()[:16]}.json"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="silva-hook", daemon=True)
        self._lake: Lake | None = None
        self._runs: dict[str, Run] = {}
        self._looked = 0.0
        self.sent = 0
        self.given_up = 0

    def start(self) -> None:
        """Begin. What happens from now on is sent."""
        self._cursor = self._known() or self._beginning()
        self._thread.start()

    def stop(self) -> None:
        """End, once the event under way was sent or its present try has failed."""
        self._stopping.set()
        self._thread.join(_SECONDS + 1)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._look()
            except SilvaError as error:
                log.warning("the web hook cannot read what happens: %s", error)
            self._stopping.wait(_LOOK)

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked >= _RUNS:
            self._runs, self._looked = {run.id: run for run in self._opened().runs()}, now
        for run in list(self._runs.values()):
            self._follow(run)

    def _follow(self, run: Run) -> None:
        if run.id in self._cursor.ended and run.finished:
            return
        reader = Events(self._folder, run.id, self._cursor.places.get(run.id, 0))
        begin = reader.place
        happened = reader.read()
        for number, event in enumerate(happened):
            if self._stopping.is_set():
                return
            self._send(msgspec.to_builtins(event), digest("event", self._url, run.id, str(begin), str(number)))
        if happened:
            self._cursor.places[run.id] = reader.place
            self._keep()
        if run.finished and run.id not in self._cursor.ended:
            body = {"kind": "ended", "at": run.finished, "run_id": run.id, "text": run.status}
            self._send(body, digest("ended", self._url, run.id, repr(run.finished)))
            self._cursor.ended.append(run.id)
            self._keep()
        elif not run.finished and run.id in self._cursor.ended:
            self._cursor.ended.remove(run.id)  # it goes on

    def _send(self, body: dict[str, object], id: str) -> None:
        data = msgspec.json.encode({"id": id, **body})
        headers = {"Content-Type": "application/json", "User-Agent": "silva-guide"}
        if self._secret:
            headers["X-Silva-Signature"] = "sha256=" + hmac.new(self._secret, data, hashlib.sha256).hexdigest()
        why = ""
        for attempt in range(TRIES):
            request = urllib.request.Request(self._url, data=data, headers=headers, method="POST")
            try:
                with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                    answer.read(1024)
                self.sent += 1
                return
            except urllib.error.HTTPError as error:
                why = f"it answered {error.code}"
                if 400 <= error.code < 500 and error.code not in (408, 429):
                    break  # it will not take this one however often it is sent
            except (OSError, ValueError) as error:
                why = str(getattr(error, "reason", error)) or type(error).__name__
            if self._stopping.wait(self._pause * 2**attempt):
                break
        self.given_up += 1
        log.warning("the web hook was not told of %s of run %s: %s", body["kind"], body["run_id"], why)

    def _opened(self) -> Lake:
        if self._lake is None:
            self._lake = Lake.open(self._where, mode="read")
        return self._lake

    def _known(self) -> _Cursor | None:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_Cursor)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise UsageError(f"hook state {self._file.name} cannot be read ({error}); move it away") from error

    def _beginning(self) -> _Cursor:
        runs = self._opened().runs()
        places = {run.id: _size(Events(self._folder, run.id).path) for run in runs}
        cursor = _Cursor(places, [run.id for run in runs if run.finished])
        self._cursor = cursor
        self._keep()
        return cursor

    def _keep(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._file.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(msgspec.json.encode(self._cursor))
        fresh.replace(self._file)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
