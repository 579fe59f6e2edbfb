"""A real Chromium before a console: when something is seen in it, how long a page takes to open, what memory it holds.

A moment counts as seen when the frame that shows it has been made: an observer notes the change, waits for the frame, and
writes down the browser's clock, which is the machine's.

Whoever steers a browser has it keep the bodies of all it fetched, in the memory of its pages. So that it is the pages'
memory that is measured, `Watched` is a browser of its own which is let alone but for a look now and then.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

CHROMIUM = os.environ.get("SILVA_CHROMIUM", "/usr/bin/chromium")
PATIENCE = 180_000

_ROWS = """
() => {
  window.noted = [];
  const known = new Set([...document.querySelectorAll("[data-node]")].map((row) => row.dataset.node));
  const look = (changes) => {
    const fresh = [];
    for (const change of changes) for (const node of change.addedNodes) {
      const id = node.dataset?.node;
      if (id && !known.has(id)) { known.add(id); fresh.push(id); }
    }
    if (fresh.length) requestAnimationFrame(() => setTimeout(() => { const at = Date.now() / 1000; for (const id of fresh) window.noted.push([id, at]); }));
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
}
"""
_COUNTS = """
() => {
  window.noted = [];
  let before = -1;
  const look = () => {
    const names = [...document.querySelectorAll(".facts dt")];
    const name = names.find((each) => each.textContent === "Turns");
    const count = name ? Number(name.nextElementSibling.textContent.replaceAll(",", "")) : -1;
    if (count === before || count < 0) return;
    before = count;
    requestAnimationFrame(() => setTimeout(() => window.noted.push([count, Date.now() / 1000])));
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
  look();
}
"""
_OPENING = """
(() => {
  const wanted = %s;
  const look = () => {
    if (window.opened || !document.querySelector(wanted)) return;
    window.opened = -1;
    requestAnimationFrame(() => setTimeout(() => { window.opened = performance.now() / 1000; }));
  };
  new MutationObserver(look).observe(document, { childList: true, subtree: true });
})()
"""


class Browser:
    """A browser that was let in.

    Args:
        url: the console's.
        token: that lets it in.
    """

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token

    def __enter__(self) -> Browser:
        from playwright.sync_api import sync_playwright

        self._playwright = sync_playwright().start()
        arguments = ["--no-sandbox", "--js-flags=--expose-gc"]
        self._browser = self._playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        self._context = self._browser.new_context(viewport={"width": 1440, "height": 900})
        self._context.set_default_timeout(PATIENCE)
        page = self._context.new_page()
        page.goto(f"{self._url}/?token={self._token}")  # leaves the cookie
        page.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._browser.close()
        self._playwright.stop()

    def opening(self, where: str, wanted: str) -> float:
        """Seconds from the navigation of a new page until a frame shows what is wanted."""
        page = self._context.new_page()
        page.add_init_script(_OPENING % repr(wanted))
        page.goto(f"{self._url}/#/{where}", wait_until="commit")
        while (took := page.evaluate("window.opened ?? 0")) <= 0:  # the page's policy lets no expression be awaited
            page.wait_for_timeout(20)
        page.close()
        return took

    def filtering(self, text: str, *, condition: bool = True) -> float:
        """Seconds from Enter in a field of the Lake page until the number found has changed."""
        page = self._context.new_page()
        page.goto(f"{self._url}/#/lake")
        page.wait_for_selector(".attempts .list .tr")
        label = "Condition on trajectories" if condition else "Words in trajectories"
        page.get_by_label(label).fill(text)
        took = page.evaluate(
            """async (label) => {
                const said = document.querySelector('[aria-label="Trajectories found"]'), before = said.textContent;
                const began = performance.now();
                document.querySelector(`[aria-label="${label}"]`).dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"}));
                while (said.textContent === before) await new Promise((done) => requestAnimationFrame(done));
                return (performance.now() - began) / 1000;
            }""",
            label,
        )
        page.close()
        return took


class Watched:
    """A browser with pages of the console in windows of their own, which runs by itself.

    Args:
        url: the console's.
        token: that lets it in.
        folder: for its profile.
        pages: what is shown.
    """

    def __init__(self, url: str, token: str, folder: Path, pages: list[str]) -> None:
        self._url, self._token, self._places = url, token, pages
        self._profile = folder / "profile"

    def __enter__(self) -> Watched:
        from playwright.sync_api import sync_playwright

        switches = ["--headless=new", "--no-sandbox", "--no-first-run", "--remote-debugging-port=0", "--disable-sync"]
        switches += ["--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows", "--mute-audio"]
        switches += [f"--user-data-dir={self._profile}", "--window-size=1440,900", f"{self._url}/?token={self._token}"]
        self._process = subprocess.Popen([CHROMIUM, *switches], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._playwright = sync_playwright().start()
        told = self._profile / "DevToolsActivePort"
        until = time.monotonic() + 60
        while not told.is_file() or not told.read_text():
            if time.monotonic() > until or self._process.poll() is not None:
                raise RuntimeError(f"{CHROMIUM} does not start")
            time.sleep(0.1)
        self._port = told.read_text().splitlines()[0]
        with self._attached() as browser:
            browser.contexts[0].pages[0].wait_for_selector("tbody tr", timeout=PATIENCE)  # its cookie is there
            session = browser.new_browser_cdp_session()
            for place in self._places:
                session.send("Target.createTarget", {"url": f"{self._url}/#/{place}", "newWindow": True})
            for page, code in zip(self._pages(browser), (_COUNTS, _ROWS), strict=True):
                page.wait_for_selector("[data-node], tbody tr", timeout=PATIENCE)
                page.evaluate(code)
            browser.contexts[0].pages[0].close()
        return self

    def __exit__(self, *_: object) -> None:
        self._playwright.stop()
        self._process.terminate()
        self._process.wait(30)

    @contextmanager
    def _attached(self) -> Iterator[Any]:
        browser = self._playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{self._port}")
        try:
            yield browser
        finally:
            browser.close()  # lets go of it; it runs on

    def _pages(self, browser: Any) -> list[Any]:
        """The pages in the order that was given: the runs' counts, then the run's rows."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            found = {page.url.partition("/#/")[2]: page for page in browser.contexts[0].pages}
            if all(place in found for place in self._places):
                return [found[place] for place in self._places]
            browser.contexts[0].pages[0].wait_for_timeout(100)
        raise RuntimeError(f"pages are gone: there are {sorted(found)}")

    def noted(self) -> list[list[tuple[Any, float]]]:
        """What was noted on each page: what, and at which second of the clock."""
        with self._attached() as browser:
            return [[(what, at) for what, at in page.evaluate("window.noted")] for page in self._pages(browser)]

    def memory(self) -> dict[str, float]:
        """Bytes of JavaScript heap after a collection, elements of the pages, and bytes that the renderers hold."""
        heap = nodes = 0.0
        with self._attached() as browser:
            for page in self._pages(browser):
                session = browser.contexts[0].new_cdp_session(page)
                session.send("HeapProfiler.collectGarbage")
                heap += session.send("Runtime.getHeapUsage")["usedSize"]
                nodes += page.evaluate("document.getElementsByTagName('*').length")
                if page.evaluate("document.hidden"):
                    raise RuntimeError(f"{page.url} is not seen: it is told nothing")
        return {"heap": heap, "nodes": nodes, "renderers": _renderers()}


def _renderers() -> float:
    found = 0
    for child in psutil.Process().children(recursive=True):
        try:
            if "--type=renderer" in child.cmdline():
                lines = Path(f"/proc/{child.pid}/smaps_rollup").read_text().splitlines()
                found += next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
        except (psutil.NoSuchProcess, OSError):
            continue
    return float(found)
