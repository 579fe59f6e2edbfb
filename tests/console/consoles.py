"""Consoles for tests: real servers in a thread; and patience."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from silva.console.serve import Server, console_app, one_user
from silva.console.users import Users
from silva.models.serving.server import bind, url_of


class Console:
    """A console that serves. `url` is where, `token` opens it."""

    def __init__(self, lake: Path, users: Users | None = None, port: int = 0, loops: Sequence[Path] = ()) -> None:
        people, self.token = (users, "") if users is not None else one_user()
        self._listening = bind("127.0.0.1", port)
        self.port = self._listening.getsockname()[1]
        self.url = url_of(self._listening).removesuffix("/v1")
        ready = threading.Event()
        self.trail = lake.parent / "trail.jsonl"
        kept = {"trail": self.trail, "datasets": lake.parent / "datasets", "loops": loops}
        self.app = console_app(str(lake), people, self.port, **kept)
        self._server = Server(self.app, self._listening, ready.set)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listening]}, daemon=True)
        self._thread.start()
        assert ready.wait(60), self.app.failure

    def at(self, page: str = "") -> str:
        """The address with the token."""
        return f"{self.url}/?token={self.token}{page}"

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        self.app.close()


def until(true: Callable[[], Any], seconds: float = 45.0) -> Any:
    """Wait until something holds; its value."""
    end = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)
    return value


def jumped(page: Any, turn: int) -> Any:
    """Wait until the page has a turn and one behind it (who goes to the last one follows the end), and go there; its
    line."""
    head = page.get_by_label("Turns", exact=True)
    until(lambda: int((head.text_content() or "0").split()[0]) > turn, 120)
    page.get_by_label("Jump to turn").fill(str(turn))
    page.keyboard.press("Enter")
    return page.get_by_role("listitem", name=f"turn {turn} policy assistant")


def in_sight(row: Any) -> bool:
    """Whether a line of a list is within what its list shows."""
    return row.evaluate(
        """line => {
            const [own, list] = [line, line.closest("[role=list]")].map((each) => each.getBoundingClientRect());
            return own.bottom > list.top && own.top < list.bottom;
        }""",
        timeout=10_000,
    )


def shown(page: Any, text: str) -> Any:
    """Wait until a text stands in the trajectory, and go there: a live list moves on while one looks for it."""
    field, places = page.get_by_label("Search the trajectory"), page.get_by_role("status", name="Places found")

    def there() -> bool:
        field.fill(text)
        field.press("Enter")
        page.wait_for_timeout(200)
        return " of " in (places.text_content() or "")

    until(there, 120)
    found = page.get_by_role("list", name="Trajectory", exact=True).get_by_text(text).first
    found.wait_for()
    return found


def in_the_list(page: Any) -> list[str]:
    """The ids of every node in the list of turns, scrolled through from its top."""
    return page.evaluate(
        """async () => {
            const list = document.querySelector(".walk .list"), found = [];
            list.scrollTop = 0;
            for (;;) {
                for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
                const rows = list.querySelectorAll("[data-node]");
                for (const row of rows) found[row.ariaPosInSet - 1] = row.dataset.node;
                if (list.scrollTop + list.clientHeight >= list.scrollHeight - 2) return found;
                list.scrollTop += list.clientHeight;
            }
        }"""
    )
