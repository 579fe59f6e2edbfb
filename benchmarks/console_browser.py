"""A real Chromium before a console: when something is seen in it, how long a page takes to open, what memory it holds.

A moment counts as seen when the frame that shows it has been made: an observer notes the change, waits for the frame, and
writes down the browser's clock, which is the machine's.

Whoever steers a browser has it keep the bodies of all it fetched, in the memory of its pages. So that it is the pages'
memory that is measured, `Watched` is a browser of its own which is let alone but for a look now and then.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
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
  // Ten notes a second for an hour: held where they cost the page's heap nothing.
  const notes = new Float64Array(400_000);
  let before = -1, held = 0;
  Object.defineProperty(window, "noted", { get: () => Array.from({ length: held / 2 }, (_, i) => [notes[2 * i], notes[2 * i + 1]]) });
  const look = () => {
    const names = [...document.querySelectorAll(".facts dt")];
    const name = names.find((each) => each.textContent === "Turns");
    const count = name ? Number(name.nextElementSibling.textContent.replaceAll(",", "")) : -1;
    if (count === before || count < 0) return;
    before = count;
    requestAnimationFrame(() => setTimeout(() => { notes[held++] = count; notes[held++] = Date.now() / 1000; }));
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
  look();
}
"""
_STANDS = "document.querySelector('[data-node], tbody tr') !== null"
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
        switches = ["--headless=new", "--no-sandbox", "--no-first-run", "--remote-debugging-port=0", "--disable-sync"]
        switches += ["--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows", "--mute-audio"]
        switches += [f"--user-data-dir={self._profile}", "--window-size=1440,900", f"{self._url}/?token={self._token}"]
        self._process = subprocess.Popen([CHROMIUM, *switches], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        told = self._profile / "DevToolsActivePort"
        self._until(lambda: told.is_file() and told.read_text().count("\n"), "the browser")
        port, self._door = told.read_text().splitlines()[:2]
        self._address = f"127.0.0.1:{port}"
        (first,) = self._until(self._open, "its first page")
        self._until(lambda: self._evaluated(first, _STANDS), "the console")  # its cookie is there
        for place in self._places:
            self._say(self._door, "Target.createTarget", url=f"{self._url}/#/{place}", newWindow=True)
        for place, code in zip(self._places, (_COUNTS, _ROWS), strict=True):
            self._until(lambda place=place: self._evaluated(self._page(place), _STANDS), place)
            self._evaluated(self._page(place), f"({code})()")
        self._say(self._door, "Target.closeTarget", targetId=first.rpartition("/")[2])
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)

    def _until(self, there: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + PATIENCE / 1000
        while not (found := there()):
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f"{what} does not come up in {CHROMIUM}")
            time.sleep(0.1)
        return found

    def _open(self) -> dict[str, str]:
        """The pages there are, with their addresses, by where each is spoken to."""
        with urllib.request.urlopen(f"http://{self._address}/json/list") as said:
            found = [each for each in json.load(said) if each["type"] == "page"]
        return {each["webSocketDebuggerUrl"].partition(self._address)[2]: each["url"] for each in found}

    def _page(self, place: str) -> str:
        found = self._until(lambda: [at for at, url in self._open().items() if url.endswith(f"/#/{place}")], place)
        return found[0]

    def _say(self, where: str, method: str, **parameters: Any) -> Any:
        """One word to the browser, on a connection of its own: nothing stays behind in a page."""

        async def told() -> Any:
            address = f"ws://{self._address}{where}"
            async with aiohttp.ClientSession() as session, session.ws_connect(address, max_msg_size=0) as channel:
                await channel.send_json({"id": 1, "method": method, "params": parameters})
                while (said := await channel.receive_json(timeout=PATIENCE / 1000)).get("id") != 1:
                    pass
                return said

        said = asyncio.run(told())
        if "error" in said:
            raise RuntimeError(f"{method}: {said['error']}")
        return said["result"]

    def _evaluated(self, page: str, expression: str) -> Any:
        said = self._say(page, "Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in said:
            raise RuntimeError(f"{expression[:60]}: {said['exceptionDetails']}")
        return said["result"].get("value")

    def noted(self) -> list[list[tuple[Any, float]]]:
        """What was noted on each page: what, and at which second of the clock."""
        return [
            [(what, at) for what, at in self._evaluated(self._page(place), "window.noted")] for place in self._places
        ]

    def memory(self) -> dict[str, float]:
        """Bytes of JavaScript heap after a collection, elements of the pages, and bytes that the renderers hold."""
        heap = nodes = 0.0
        for place in self._places:
            page = self._page(place)
            self._say(page, "HeapProfiler.collectGarbage")
            heap += self._say(page, "Runtime.getHeapUsage")["usedSize"]
            nodes += self._evaluated(page, "document.getElementsByTagName('*').length")
            if self._evaluated(page, "document.hidden"):
                raise RuntimeError(f"{place} is not seen: it is told nothing")
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
