"""The way to a service: live, live and kept (`record`), or from what was kept (`replay`).

    url ─▶ FOLDER/HOST-DIGEST.json, or the network (by turns, within limits, tried again when told to wait) ─▶ bytes

A reply that was kept says when and from where; one that is not there is refused by name, never made up.
"""

from __future__ import annotations

import json
import time
from importlib import resources
from pathlib import Path
from typing import Any, Literal
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from silva import __version__
from silva.errors import UnreachableError, UsageError
from silva.lake.durable import write_whole
from silva.tree import digest

Mode = Literal["live", "record", "replay"]
EXAMPLE = "example"
"""The folder of replies that comes with Silva."""
_MOST = 16 << 20
"""Bytes of a reply."""
_TRIES, _SECONDS, _APART = 3, 30.0, 0.35
"""Tries, the bound of each in seconds, and seconds between two requests to one host (KEGG allows three a second)."""


class Transport:
    """A way to services.

    Args:
        mode: `live` asks the network; `record` keeps what came, too; `replay` takes only what was kept.
        folder: where replies are kept; `example` for those that come with Silva.

    Raises:
        UsageError: a folder is needed and not named, or not there.
    """

    def __init__(self, mode: Mode = "live", folder: str | None = None) -> None:
        if mode != "live" and folder is None:
            raise UsageError(f"science: --{mode} needs the folder of replies")
        self.mode: Mode = mode
        self._folder = None if folder is None else _example() if folder == EXAMPLE else Path(folder)
        if mode == "replay" and self._folder is not None and not self._folder.is_dir():
            raise UsageError(f"science: {folder}: there is no such folder of replies")
        self._asked: dict[str, float] = {}
        self.sources: dict[str, str] = {}
        """What was asked so far, and where each reply is from."""

    def get(self, url: str) -> bytes:
        """The body of a reply.

        Raises:
            UnreachableError: the service does not answer, refuses, or its reply was not kept.
        """
        kept = self._kept(url)
        if self.mode == "replay":
            if kept is None or not kept.is_file():
                raise UnreachableError(f"{url}: no reply was kept; ask for it once with --record FOLDER")
            try:
                told: Any = json.loads(kept.read_bytes())
                body = str(told["body"])
            except (OSError, ValueError, KeyError, TypeError) as fault:
                raise UsageError(f"{kept}: it is no kept reply ({fault})") from fault
            self.sources[url] = f"replayed, {told.get('kept', 'undated')}"
            return body.encode()
        body = self._live(url)
        self.sources[url] = "live"
        if self.mode == "record" and kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            day = time.strftime("%Y-%m-%d", time.gmtime())
            said = {"url": url, "kept": f"recorded {day}", "body": body.decode("utf-8", "replace")}
            write_whole(kept, json.dumps(said, ensure_ascii=False, indent=1).encode())
        return body

    def _kept(self, url: str) -> Path | None:
        host = urlsplit(url).hostname or "host"
        return None if self._folder is None else self._folder / f"{host}-{digest('reply', url)[:16]}.json"

    def _live(self, url: str) -> bytes:
        host = urlsplit(url).hostname or ""
        request = Request(url, headers={"User-Agent": f"silva/{__version__}", "Accept": "*/*"})
        if urlsplit(url).scheme not in ("http", "https"):
            raise UsageError(f"{url}: is no http(s) address")
        why = ""
        for tried in range(1, _TRIES + 1):
            wait = self._asked.get(host, 0.0) + _APART - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            self._asked[host] = time.monotonic()
            try:
                with urlopen(request, timeout=_SECONDS) as reply:
                    body: bytes = reply.read(_MOST + 1)
                if len(body) > _MOST:
                    raise UnreachableError(f"{url}: its reply is longer than {_MOST >> 20} MB")
                return body
            except HTTPError as fault:
                why = f"{fault.code} {fault.reason}"
                if fault.code not in (429, 500, 502, 503, 504):
                    break
                after = fault.headers.get("Retry-After", "")
                pause = float(after) if after.isdigit() else 2.0**tried
            except (URLError, OSError) as fault:
                why = str(getattr(fault, "reason", fault))
                pause = 2.0**tried
            if tried < _TRIES:
                time.sleep(min(pause, 10.0))
        raise UnreachableError(f"{host}: no reply ({why}); is there a network? --replay FOLDER needs none")


def _example() -> Path:
    return Path(str(resources.files("silva.curate.science") / "recorded"))
