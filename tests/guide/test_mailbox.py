"""Words on their way: none lost, none twice, in order, whoever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silva.errors import StoreError, UsageError
from silva.guide import Mailbox
from silva.guide.word import MOST_CHARS, word

TALKER = """
import sys, time
from silva.guide import Mailbox
from silva.guide.word import word
box = Mailbox(sys.argv[1], "run")
for n in range(int(sys.argv[3])):
    one = word("run", "say", sys.argv[2], time.time(), text=f"{sys.argv[2]} {n} " + "x" * 3000)
    box.say(one)
    print(one.id, flush=True)
"""


def say(box: Mailbox, text: str, **more: Any) -> str:
    one = word("run", "say", "ann", 1.0, text=text, **more)
    box.say(one)
    return one.id


def test_words_come_once_and_in_order_and_wait_for_a_reader(tmp_path: Path) -> None:
    box = Mailbox(tmp_path, "run")
    assert box.read() == []
    first = [say(box, "one"), say(box, "two")]
    reader = Mailbox(tmp_path, "run")
    assert [each.id for each in reader.read()] == first
    assert reader.read() == []
    third = say(box, "three\nin two lines")
    assert [(each.id, each.text) for each in reader.read()] == [(third, "three\nin two lines")]
    assert len(Mailbox(tmp_path, "run").read()) == 3
    again = word("run", "say", "ann", 1.0, id=third, text="three, sent twice")
    box.say(again)
    assert reader.read() == []
    assert Mailbox(tmp_path, "another").read() == []


def test_a_run_that_ended_hears_nothing_until_it_goes_on(tmp_path: Path) -> None:
    box, reader = Mailbox(tmp_path, "run"), Mailbox(tmp_path, "run")
    first = say(box, "one")
    box.close()
    box.close()
    with pytest.raises(UsageError, match="run run has ended"):
        say(box, "two")
    assert [each.id for each in reader.read()] == [first] and reader.read() == []
    box.reopen()
    third = say(box, "three")
    assert [each.id for each in reader.read()] == [third]


@given(st.integers(0, 400))
def test_a_line_torn_anywhere_is_cut_off_and_costs_no_other(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    box = Mailbox(tmp_path_factory.mktemp("box"), "run")
    first = say(box, "one")
    whole = box.path.stat().st_size
    say(box, "two " + "y" * 100)
    size = box.path.stat().st_size
    os.truncate(box.path, max(whole, size - 1 - cut % (size - whole)))
    assert [each.id for each in Mailbox(box.path.parent, "run").read()] == [first]
    third = say(box, "three")
    assert [each.id for each in Mailbox(box.path.parent, "run").read()] == [first, third]


def test_several_people_who_are_killed_while_they_talk_lose_nothing_they_were_told_is_said(tmp_path: Path) -> None:
    people = [
        subprocess.Popen([sys.executable, "-c", TALKER, str(tmp_path), name, "400"], stdout=subprocess.PIPE, text=True)
        for name in ("ann", "ben")
    ]
    reader = Mailbox(tmp_path, "run")
    heard: list[str] = []
    deadline = time.monotonic() + 60
    while len(heard) < 60 and time.monotonic() < deadline:
        heard += [each.id for each in reader.read()]
    people[0].send_signal(signal.SIGKILL)
    said = [process.communicate()[0].split() for process in people]
    heard += [each.id for each in reader.read()]
    assert len(heard) == len(set(heard)) and set(said[0]) | set(said[1]) <= set(heard)
    assert len(said[1]) == 400
    order = [each for each in heard if each in set(said[1])]
    assert order == said[1]


@pytest.mark.parametrize(
    ("kind", "more", "fault"),
    [
        ("shout", {}, "no word of kind 'shout': there are say, pause"),
        ("say", {}, "needs text"),
        ("say", {"text": "x" * (MOST_CHARS + 1)}, "may hold 64,000 characters"),
        ("good", {"turn": -1}, "turns are counted from 1"),
        ("forbid", {"pattern": "("}, "is no regular expression"),
        ("good", {"turn": "three"}, "Expected `int`"),
    ],
)
def test_a_word_that_says_nothing_is_refused(kind: str, more: dict[str, Any], fault: str) -> None:
    with pytest.raises(UsageError) as refused:
        word("run", kind, "ann", 1.0, **more)
    assert fault in str(refused.value)


def test_nobody_is_refused() -> None:
    for name in ("", " ", "a\nb", "x" * 81):
        with pytest.raises(UsageError, match="say who you are"):
            word("run", "pause", name, 1.0)


def test_a_damaged_line_is_told_and_a_folder_that_cannot_be_written_too(tmp_path: Path) -> None:
    box = Mailbox(tmp_path, "run")
    say(box, "one")
    with box.path.open("ab") as file:
        file.write(b"{not json}\n")
    with pytest.raises(StoreError, match="a damaged line"):
        Mailbox(tmp_path, "run").read()
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be opened"):
        say(Mailbox(tmp_path / "file" / "below", "run"), "one")
