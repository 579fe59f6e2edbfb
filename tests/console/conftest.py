"""A console over a lake, as a real server; and a real browser."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from consoles import Console
from live_engines import Engine

from silva.lake import Lake

CHROMIUM = os.environ.get("SILVA_CHROMIUM", "/usr/bin/chromium")
PATIENCE = 120_000
"""Milliseconds that a page may take; the machine may be busy with other things."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SILVA_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def writer(home: Path) -> Iterator[Lake]:
    """The lake, open to write, as an engine holds it."""
    with Lake.open(home / "lake") as lake:
        yield lake


@pytest.fixture
def serve(home: Path) -> Iterator[Callable[..., Console]]:
    """Serves consoles; all are closed after the test."""
    with ExitStack() as stack:

        def start(lake: Path | None = None, **settings: Any) -> Console:
            console = Console(lake or home / "lake", **settings)
            stack.callback(console.close)
            return console

        yield start


@pytest.fixture
def engine(home: Path) -> Iterator[Callable[..., Engine]]:
    """Starts live engines; all are ended after the test."""
    with ExitStack() as stack:

        def start(**settings: Any) -> Engine:
            made = Engine(home, **settings)
            stack.callback(made.close)
            return made

        yield start


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """For one file: while Playwright is there, nothing else in the process can run an event loop."""
    playwright = pytest.importorskip("playwright.sync_api")
    if not Path(CHROMIUM).exists():
        pytest.skip(f"there is no browser at {CHROMIUM} (set SILVA_CHROMIUM)")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page whose every fault fails the test: a script that breaks, or one that the policy had to stop."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE)
    opened = context.new_page()
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda line: faults.append(line.text) if "Content Security Policy" in line.text else None)
    opened.on("dialog", lambda dialog: (faults.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
    yield opened
    context.close()
    assert not faults, faults
