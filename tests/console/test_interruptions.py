"""A console that is killed, a browser that was away: the agent goes on, nothing said is lost, and the page catches up
without a reload."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from console_lakes import live_run
from consoles import Console, in_the_list, until
from live_engines import WITH_PARENT, Engine, actions

from silva.console.users import hashed
from silva.guide import words as said
from silva.lake import Lake
from silva.tree import Author

pytestmark = pytest.mark.slow

Serve = Callable[..., Console]
Start = Callable[..., Engine]


class ConsoleProcess:
    """`silva console` in a process, killed and started again at the same address. `url` is where."""

    def __init__(self, home: Path) -> None:
        self._home = home
        (home / "users.yaml").write_text(f"ann: {{role: admin, token: {hashed('secret')}}}\n")
        self._port, self._process = "0", None
        self.start()

    def start(self) -> None:
        """Serve; once it answers this returns."""
        where = ["--lake", str(self._home / "lake"), "--users", str(self._home / "users.yaml"), "--port", self._port]
        more = ["--trail", str(self._home / "trail.jsonl"), "--datasets", str(self._home / "datasets")]
        serve = [sys.executable, "-m", "silva", "console", *where, *more]
        command = [sys.executable, "-c", WITH_PARENT, *serve]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().partition("/?")[0].strip()
        self._port = self.url.rpartition(":")[2]

    def kill(self) -> None:
        """`kill -9`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


@pytest.fixture
def console(home: Path) -> Iterator[Callable[[], ConsoleProcess]]:
    started: list[ConsoleProcess] = []

    def start() -> ConsoleProcess:
        started.append(ConsoleProcess(home))
        return started[0]

    yield start
    for each in started:
        each.kill()


def opened(page: Any, url: str, token: str, engine: Engine) -> Any:
    """The page of the live attempt, marked so that a reload would be seen; its list of turns."""
    page.goto(f"{url}/?token={token}")
    page.goto(f"{url}/#/run/live/{engine.attempt()}")
    turns = page.get_by_role("list", name="Trajectory", exact=True)
    turns.get_by_text("write(").first.wait_for()
    page.evaluate("window.stays = true")
    return turns


def test_a_console_killed_in_a_live_run_loses_no_word_and_the_agent_goes_on(
    engine: Start, console: Callable[[], ConsoleProcess], page: Any, home: Path
) -> None:
    live = engine()
    served = console()
    turns = opened(page, served.url, "secret", live)
    words, log = page.get_by_label("Words"), page.get_by_role("log", name="What was said")
    said: list[str] = []
    for number in range(2):
        for part in range(2):
            words.fill(f"note {number}.{part}")
            page.get_by_role("button", name="Send").click()
            until(lambda: words.input_value() == "")  # acknowledged
            said.append(f"note {number}.{part}")
        served.kill()
        before = len(actions(live.walk()))
        page.get_by_label("Connection").get_by_text("reconnecting").wait_for()
        words.fill(f"after {number}")
        page.get_by_role("button", name="Send").click()
        page.get_by_text("the console does not answer: try again once it is live").first.wait_for()
        assert words.input_value() == f"after {number}", "what could not be said is not lost"
        until(lambda before=before: len(actions(live.walk())) >= before + 2)
        assert live.alive, "the agent goes on"
        served.start()
        page.get_by_label("Connection").get_by_text("live", exact=True).wait_for()
        page.get_by_role("button", name="Send").click()
        until(lambda: words.input_value() == "")
        said.append(f"after {number}")
        log.get_by_text(f"after {number}").wait_for()
        turns.get_by_text(f"after {number}").first.wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_label("Status").get_by_text("truncated").wait_for()
    live.ended()
    assert page.evaluate("window.stays"), "without a reload"
    walk = live.walk(live.attempt())
    heard = Counter(
        line for node in walk if node.author is Author.PERSON for line in node.message.text.splitlines() if line in said
    )
    assert heard == Counter(said), "every word once"
    kept = Counter(each.reason for each in live.supervisions() if each.attributes["kind"] == "say")
    assert kept == Counter(said)
    assert in_the_list(page) == [node.id for node in walk], "every turn stands on the page once, in order"


def test_a_word_whose_answer_was_lost_is_said_once(serve: Serve, writer: Lake, page: Any, home: Path) -> None:
    grower = live_run(writer)
    console = serve()
    page.goto(console.at())
    page.goto(f"{console.url}/#/run/live/{grower.id}")
    page.get_by_role("list", name="Trajectory", exact=True).get_by_text("step 2").wait_for()

    def swallow(route: Any) -> None:  # the console takes the word, and dies before it can say so
        route.fetch()
        route.abort()

    page.route("**/api/say", swallow, times=1)
    words = page.get_by_label("Words")
    words.fill("only once")
    page.get_by_role("button", name="Send").click()
    page.get_by_text("the console does not answer").wait_for()
    page.get_by_role("button", name="Send").click()
    until(lambda: words.input_value() == "")
    words.fill("only once")
    page.get_by_role("button", name="Send").click()
    until(lambda: words.input_value() == "")
    assert [each.text for each in said(str(home / "lake"), "live")] == ["only once"] * 2, (
        "what was lost once and what was said again"
    )


def test_a_page_that_is_not_seen_lets_go_of_its_stream_and_takes_it_up_again(
    serve: Serve, writer: Lake, page: Any
) -> None:
    grower = live_run(writer)
    console = serve()
    page.goto(console.at())
    page.goto(f"{console.url}/#/run/live/{grower.id}")
    page.get_by_role("list", name="Trajectory", exact=True).get_by_text("step 2").wait_for()
    streams = console.app._reading.streams._streams
    until(lambda: len(streams) == 1)
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => window.away, configurable: true});"
        "window.away = true; document.dispatchEvent(new Event('visibilitychange'))"
    )
    until(lambda: not streams)
    for _ in range(6):
        writer.append_sync(grower.turn())
    page.evaluate("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
    page.get_by_label("Turns", exact=True).get_by_text("8 turns").wait_for()
    writer.append_sync([*grower.turn(), grower.end()])
    page.get_by_label("Status").get_by_text("completed").wait_for()
    assert in_the_list(page) == [node.id for node in grower.nodes]
