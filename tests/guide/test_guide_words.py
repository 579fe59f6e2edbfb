"""What can be said, to whom, and what is refused in one line."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silva.cli.main import run as silva
from silva.errors import Exit, UsageError
from silva.guide import Mailbox, post, words
from silva.guide.action import action_of
from silva.guide.command import command_of
from silva.guide.event import Event, Events, became_of, waiting_of
from silva.guide.mailroom import Mailroom, folder_of
from silva.guide.pace import Pace
from silva.guide.word import word
from silva.lake import Lake
from silva.rollout.branching.shoots import actions_of
from silva.tree import Outcome, Run, Status, Task, Trajectory, trajectory_id, tree_id

CALL = '{"name": "add", "arguments": {"number": 5}}'


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a run that goes on, and one trajectory of it that has ended."""
    folder = tmp_path_factory.mktemp("words") / "lake"
    with Lake.open(folder) as opened:
        run = Run(id="r", envs=("e",), config={"group": 2}, started=1.0, status="running")
        tasks = [Task(id=f"e/{number}", env="e") for number in range(3)]
        ended = Trajectory(
            id=trajectory_id("r", "e/0", 0, 0),
            run_id="r",
            tree_id=tree_id("r", "e/0"),
            task_id="e/0",
            env="e",
            index=0,
            attempt=0,
            seed=0,
            leaf_id=None,
            outcome=Outcome(status=Status.COMPLETED),
        )
        opened.append_sync([run, *tasks, ended])
    return folder


@pytest.fixture
def lake(home: Path, stored: Path) -> Path:
    """That lake, with a mailbox of this test's own."""
    return stored


def test_every_kind_of_word_is_kept_as_it_was_said(lake: Path) -> None:
    some = {
        "say": {"text": "hello"},
        "pause": {},
        "resume": {},
        "stop": {"why": "enough"},
        "forbid": {"pattern": "rm"},
        "allow": {"pattern": "rm"},
        "good": {"turn": 1},
        "bad": {},
        "back": {"to": "e/1", "turn": 2, "action": CALL},
        "edit": {"to": "e/1", "action": CALL},
    }
    for kind, more in some.items():
        (said,) = post(lake, "r", kind, "ann", **more)
        assert said.kind == kind and said.by == "ann"
    kept = words(lake, "r")
    assert [each.kind for each in kept] == list(some)
    taken = kept[-1].taken
    assert taken is not None and taken.tool_calls[0].parsed() == {"number": 5}


@pytest.mark.parametrize(
    ("kind", "more", "expected"),
    [
        ("shout", {}, "no word of kind"),
        ("say", {}, "needs text"),
        ("say", {"text": "x" * 1_000_000}, "1,000,000"),
        ("say", {"text": "hi", "to": "e/9"}, "no trajectory or task"),
        ("back", {"turn": 1}, "say which"),
        ("back", {"to": "e/1", "turn": -1}, "counted from 1"),
        ("back", {"to": "e/1", "turn": 1, "action": CALL, "text": "and"}, "not both"),
        ("edit", {"to": "e/1", "action": '{"name": "add", '}, "begins as JSON"),
        ("edit", {"to": "e/1", "action": '{"tool": "add"}'}, "give"),
        ("edit", {"to": "e/1", "action": '{"name": "add", "arguments": 5}'}, "no object"),
        ("edit", {"to": "e/1", "action": "[]"}, "no call"),
        ("edit", {"to": "e/1"}, "needs action"),
        ("say", {"text": "x", "action": CALL}, "takes no action"),
        ("approve", {}, "no action waits"),
        ("reject", {"to": "e/1"}, "no action waits for approval of e/1"),
        ("forbid", {"pattern": "("}, "no regular expression"),
        ("say", {"text": "x", "id": "a b"}, "id"),
    ],
)
def test_what_cannot_be_said_is_refused_and_not_kept(
    lake: Path, kind: str, more: dict[str, Any], expected: str
) -> None:
    with pytest.raises(UsageError) as refused:
        post(lake, "r", kind, "ann", **more)
    assert expected in str(refused.value) and "\n" not in str(refused.value) and len(str(refused.value)) < 300
    assert words(lake, "r") == []


def test_a_trajectory_is_named_by_how_its_id_begins(lake: Path) -> None:
    live, ended = trajectory_id("r", "e/1", 1, 0), trajectory_id("r", "e/0", 0, 0)
    assert post(lake, "r", "say", "ann", text="hi", to=live[:10])[0].to == live
    with pytest.raises(UsageError, match="has ended"):
        post(lake, "r", "say", "ann", text="hi", to=ended[:10])


def test_words_to_an_earlier_attempt_reach_the_present_one() -> None:
    one = word("r", "say", "ann", 1.0, to="first", text="hi")
    assert one.reaches("second", "task", ("first",)) and not one.reaches("second", "task")


def test_the_text_of_an_action_means_the_same_here_as_for_branches() -> None:
    both = '{"text": "so", "tool_calls": [{"name": "add", "arguments": {"number": 1}}]}'
    for text in ("plain words", CALL, f"[{CALL}, {CALL}]", both, '{"name": "look"}'):
        mine, theirs = action_of(text, "w"), actions_of([text], 1)[0]
        assert mine.text == theirs.text
        assert [(each.name, each.parsed()) for each in mine.tool_calls] == [
            (each.name, each.parsed()) for each in theirs.tool_calls
        ]
        assert len({each.id for each in mine.tool_calls}) == len(mine.tool_calls)


def test_500_words_in_a_second_are_all_kept_and_heard_once(home: Path) -> None:
    room = Mailroom(Mailbox(home / "box", "r"))
    said = [word("r", "say", f"p{number % 3}", 1.0, text=f"{number}") for number in range(500)]
    for one in said:
        room.mailbox.say(one)
    assert [each.text for each in room.hear("t", "task")] == [str(number) for number in range(500)]
    assert room.hear("t", "task") == []


def test_events_tell_who_waits_and_what_was_heard_and_a_torn_line_harms_nothing(tmp_path: Path) -> None:
    facts = {"at": 1.0, "run_id": "r", "trajectory_id": "t", "task_id": "e/0"}
    events = Events(tmp_path, "r")
    events.tell(Event(kind="waiting", node_id="n1", action="rm", reasons=("delete",), turn=2, **facts))
    with events.path.open("ab") as file:
        file.write(b'{"kind":"wai')
    again = Events(tmp_path, "r")
    again.tell(Event(kind="waiting", node_id="n2", **facts))
    again.tell(Event(kind="heard", word="w", text="say", **facts))
    again.tell(Event(kind="heard", word="w", text="say", **facts))
    again.tell(Event(kind="undone", word="v", text="no turn", **facts))
    reader = Events(tmp_path, "r")
    happened = reader.read()
    assert [each.node_id for each in waiting_of(happened)] == ["n1", "n2"] and reader.read() == []
    fates = became_of(happened)
    assert fates["w"].shown() == "heard" and fates["v"].shown() == "not done: no turn"
    again.tell(Event(kind="decided", node_id="n1", text="approve", **facts))
    later = reader.read()
    assert [each.node_id for each in waiting_of([*happened, *later])] == ["n2"]
    assert Events(tmp_path, "r", reader.place).read() == []


def test_a_decision_names_the_action_that_waits(lake: Path) -> None:
    live = trajectory_id("r", "e/1", 0, 0)
    facts = {"at": 1.0, "run_id": "r", "trajectory_id": live, "task_id": "e/1", "turn": 3}
    room = Events(folder_of(str(lake)), "r")
    room.tell(Event(kind="waiting", node_id="n1", **facts))
    room.tell(Event(kind="waiting", node_id="n2", **{**facts, "task_id": "e/2"}))
    assert [each.node for each in post(lake, "r", "approve", "ann", id="mine")] == ["n1", "n2"]
    assert [each.node for each in post(lake, "r", "reject", "ann", to="e/2")] == ["n2"]
    assert [each.node for each in post(lake, "r", "edit", "ann", to="e/1", action="wait")] == ["n1"]
    with pytest.raises(UsageError, match="at turn 4"):
        post(lake, "r", "approve", "ann", turn=4)


def test_words_from_the_shell(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--lake", str(lake), "--by", "ann"]
    assert (
        silva(["guide", "back", "r", "--to", "e/1", "--turn", "2", "--action", CALL, "--why", "no", *where]) == Exit.OK
    )
    assert silva(["guide", "edit", "r", CALL, "--to", "e/1", *where]) == Exit.OK
    assert silva(["guide", "approve", "r", *where]) == Exit.USAGE
    capsys.readouterr()
    assert silva(["guide", "list", "r", "--lake", str(lake)]) == Exit.OK
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 2 and "ann  back  to e/1  turn 2" in out[0] and out[0].endswith("[not heard yet]")
    assert silva(["guide", "list", "r", "--lake", str(lake), "--waiting", "--json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == []


def test_what_turns_or_hides_text_is_shown_by_its_number_where_a_person_approves(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hiding = "\u202e\x1b[2K\u200b"
    post(lake, "r", "say", "ann", text=f"look{hiding}", why=f"so{hiding}")
    facts = {"at": 1.0, "run_id": "r", "trajectory_id": "t" * 32, "task_id": f"e/1{hiding}", "turn": 3}
    waiting = Event(kind="waiting", node_id="n1", action=f"ls{hiding}", reasons=(f"risky{hiding}",), **facts)
    Events(folder_of(str(lake)), "r").tell(waiting)
    assert silva(["guide", "list", "r", "--lake", str(lake)]) == Exit.OK
    out = capsys.readouterr().out
    shown = "<U+202E><U+001B>[2K<U+200B>"
    for text in ("look", "so", "e/1", "ls", "risky"):
        assert f"{text}{shown}" in out
    assert not set(hiding) - set("[2K") & set(out)


def test_lines_of_an_attached_terminal() -> None:
    def read(line: str) -> tuple[str, dict[str, Any]]:
        order = command_of(line)
        assert order is not None
        return order.kind, order.more

    assert read("hello there") == ("say", {"text": "hello there"})
    assert read("//etc is a folder") == ("say", {"text": "/etc is a folder"})
    assert read("/pause lunch") == ("pause", {"why": "lunch"})
    assert read(f"/back 3 {CALL}") == ("back", {"turn": 3, "action": CALL})
    assert read("/back 3 look first") == ("back", {"turn": 3, "text": "look first"})
    assert read("/forbid rm -rf -- dangerous") == ("forbid", {"pattern": "rm -rf", "why": "dangerous"})
    assert read("/good") == ("good", {"turn": 0, "why": ""})
    assert read("/bad 2 it guessed") == ("bad", {"turn": 2, "why": "it guessed"})
    assert read(f"/edit 4 {CALL}") == ("edit", {"turn": 4, "action": CALL})
    assert command_of("   ") is None
    for wrong in ("/back", "/edit", "/forbid", "/shout hello"):
        with pytest.raises(UsageError):
            command_of(wrong)


@given(st.lists(st.floats(0, 5), max_size=200), st.floats(0.5, 50), st.integers(1, 20))
def test_a_pace_never_lets_through_more_than_its_burst_and_its_rate(
    pauses: list[float], rate: float, burst: int
) -> None:
    pace, now, taken = Pace(rate, burst), 0.0, 0
    for pause in pauses:
        now += pause
        wait = pace.take(now)
        assert wait >= 0
        taken += wait == 0
        assert taken <= burst + rate * now + 1e-6
    assert pace.take(now + 1 / rate + 1e-6) == 0


def test_said_at_is_now(lake: Path) -> None:
    (said,) = post(lake, "r", "pause", "ann")
    assert abs(said.at - time.time()) < 60


def test_a_run_of_a_name_that_another_lake_here_once_had_hears_nothing_of_then(home: Path) -> None:
    box = Mailbox(folder_of(str(home / "lake")), "r")
    box.say(word("r", "say", "ann", 1.0, text="early"))
    assert [each.text for each in Mailroom.of(str(home / "lake"), "r").hear("t", "e/0")] == ["early"], "before it began"
    Mailroom.of(str(home / "lake"), "r").tell("heard", trajectory_id="t", task_id="e/0", index=0, attempt=0)
    assert Mailroom.of(str(home / "lake"), "r").hear("t", "e/0") == [], "its lake is gone"
    assert len(list(box.path.parent.iterdir())) == 2, "both files are put aside, none is removed"
    box.say(word("r", "say", "ann", 2.0, text="now"))
    with Lake.open(home / "lake") as opened:
        opened.append_sync([Run(id="r", envs=("e",), started=1.0, status="running")])
    Mailroom.of(str(home / "lake"), "r").tell("heard", trajectory_id="t", task_id="e/0", index=0, attempt=0)
    assert [each.text for each in Mailbox(box.path.parent, "r").read()] == ["now"]
    assert [each.text for each in Mailroom.of(str(home / "lake"), "r").hear("t", "e/0")] == ["now"], "it is there"
