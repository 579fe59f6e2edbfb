"""The console's reader, without a browser: every record once, differences only, no silent gaps."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from console_lakes import Grower, run_record, task_record

from silva.console.attempt import Attempt
from silva.console.comparing import side_by_side
from silva.console.forest import Change, Forest
from silva.console.outline import context, pieces
from silva.console.overview import scatter
from silva.console.reading import Reading
from silva.console.stream import MOST_NODES, Streams
from silva.console.trail import Trail
from silva.console.trees import MOST, OpenTree, Trees
from silva.console.users import hashed, read_users
from silva.console.view import line, whole
from silva.console.work import work
from silva.errors import StoreError, UsageError
from silva.lake import Lake
from silva.lake.follower import Follower
from silva.lake.frames import MAGIC, frames
from silva.tree import Author, Node, assistant, call, tool_result, user


class Journal:
    """A journal's folder, written by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, number: int, data: bytes) -> None:
        path = self.folder / f"{number:012}.open"
        if not path.exists():
            path.write_bytes(MAGIC)
        with path.open("ab") as file:
            file.write(data)

    def seal(self, number: int) -> None:
        path = self.folder / f"{number:012}.open"
        path.rename(path.with_suffix(".sealed"))

    def drop(self, number: int) -> None:
        (self.folder / f"{number:012}.sealed").unlink()


def ids(entries: list) -> list[str]:
    return [each.id for each in entries]


def test_every_record_comes_once_whole_and_in_order(tmp_path: Path) -> None:
    follower = Follower(tmp_path / "journal")
    assert follower.fresh() == []
    journal, grower = Journal(tmp_path / "journal"), Grower("r", "terminal/a")
    journal.add(1, frames(grower.nodes))
    assert ids(follower.fresh()) == ids(grower.nodes)
    assert follower.fresh() == []
    turn = grower.turn()
    data = frames(turn)
    journal.add(1, data[:-7])
    assert ids(follower.fresh()) == [turn[0].id], "a frame that is not whole yet waits"
    journal.add(1, data[-7:])
    journal.seal(1)
    later = grower.turn()
    journal.add(2, frames(later))
    assert ids(follower.fresh()) == [turn[1].id, *ids(later)]
    journal.drop(1)
    assert follower.fresh() == [] and not follower.missed


def test_what_was_compacted_before_it_was_read_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    journal, grower = Journal(tmp_path), Grower("r", "terminal/a")
    journal.add(1, frames(grower.nodes))
    follower = Follower(tmp_path)
    follower.fresh()
    journal.add(1, frames(grower.turn()))
    journal.seal(1)
    journal.drop(1)
    assert ids(follower.fresh()) == ids(grower.nodes[-2:]) and not follower.missed, "it was held open"
    other = Follower(tmp_path)
    journal.add(2, frames(grower.turn()))
    other.fresh()
    journal.add(4, frames(grower.turn()))
    other.fresh()
    assert other.missed, "segment 3 came and went"
    journal.seal(4)
    third = Follower(tmp_path)
    third.fresh()
    for number in (2, 4):
        if number == 2:
            journal.seal(2)
        journal.drop(number)
    journal.add(6, frames(grower.turn()))
    third.fresh()
    assert third.missed, "segment 5 came and went, and all before it went"


def test_a_forest_counts_what_grows_and_nothing_twice() -> None:
    forest, grower = Forest(), Grower("r", "terminal/a")
    forest.take([run_record("r"), task_record("terminal/a")])
    grower.turn()
    grower.turn("ls", "x")
    change = forest.take(grower.nodes)
    (attempt,) = forest.attempts.values()
    assert (attempt.id, attempt.task, attempt.env, attempt.turns) == (grower.id, "terminal/a", "terminal", 2)
    assert attempt.status == "running" and attempt.tokens == 220 and '"ls"' in attempt.last
    assert change.runs == {"r"} and len(change.nodes) == len(grower.nodes)
    again = forest.take(grower.nodes)
    assert attempt.turns == 2 and not again.attempts
    forest.take([grower.end(0.5, 1.0)])
    forest.take(grower.nodes)
    (ended,) = forest.attempts.values()
    assert (ended.status, ended.score, ended.safety, ended.turns) == ("completed", 0.5, 1.0, 2)
    assert forest.by_id == {grower.id: ended} and list(forest.by_run["r"].values()) == [ended]


def test_an_attempt_whose_task_no_record_tells_is_shown_all_the_same() -> None:
    forest, grower = Forest(), Grower("r", "terminal/unknown")
    forest.take([*grower.nodes, *grower.turn()])
    (attempt,) = forest.attempts.values()
    assert attempt.task == "" and attempt.id == f"{grower.tree}:0.0" and attempt.turns == 1


def test_a_tree_that_is_open_grows_and_few_are_kept() -> None:
    growers = {grower.tree: grower for grower in (Grower("r", f"terminal/{n}") for n in range(MOST + 3))}
    read: list[str] = []

    def nodes(id: str) -> list[Node]:
        read.append(id)
        return list(growers[id].nodes) if id in growers else []

    trees = Trees(nodes)
    first = next(iter(growers.values()))
    opened = trees.open(first.tree)
    turn = first.turn()
    trees.take(turn)
    assert opened.tip("r", "0.0") == turn[-1].id
    assert [node.id for node in opened.walk(turn[-1].id)] == [node.id for node in first.nodes]
    assert trees.open(first.tree) is opened and read == [first.tree]
    for id in list(growers)[1:]:
        trees.open(id)
    assert trees.open(first.tree) is not opened, "the least recently used was let go, and is read again"
    with pytest.raises(UsageError, match="there is no tree"):
        trees.open("nothing")


def forked() -> tuple[OpenTree, Grower, Grower]:
    left, right = Grower("r", "terminal/a"), Grower("r", "terminal/a", index=1)
    for _ in range(2):
        left.turn()
        right.turn()
    tree = OpenTree(left.tree)
    tree.take([*left.nodes, *right.nodes])
    return tree, left, right


def test_branches_are_pieces_that_can_be_walked() -> None:
    tree, left, right = forked()
    found = pieces(tree)
    assert [(each["slot"], each["turns"], each["on"], each["end"]) for each in found] == [
        ("", 0, None, False),
        ("0.0", 2, 0, True),
        ("1.0", 2, 0, True),
    ]
    assert [each["last"] for each in found[1:]] == [left.nodes[-1].id, right.nodes[-1].id]


def test_the_exact_context_of_a_turn_is_what_came_before_it() -> None:
    tree, left, _ = forked()
    second = left.nodes[4]
    seen = context(tree, second.id, "tools")
    texts = [[part["text"] for part in each["parts"]] for each in seen["messages"]]
    assert texts == [[node.message.text] for node in left.nodes[:4]]
    assert seen["prompt_tokens"] == 100 and seen["ids"] is None and seen["turn"] == 2
    assert seen["messages"][2]["tool_calls"][0]["name"] == "session_run"
    with pytest.raises(UsageError, match="environment"):
        context(tree, left.nodes[5].id, "tools")


def test_where_two_walks_part() -> None:
    _, left, right = forked()
    other = Grower("another", "terminal/a")
    other.turn()
    other.turn("ls", text="look")
    assert side_by_side(left.nodes, left.nodes)["first"] is None
    assert side_by_side(left.nodes, other.nodes)["first"] == 4, "another run said the same until then"
    assert side_by_side(left.nodes, left.nodes[:4])["first"] == 4
    assert len(side_by_side(left.nodes, right.nodes)["right"]) == 6


def test_terminals_files_and_searches_are_read_from_the_turns() -> None:
    grower = Grower("r", "terminal/a")
    grower.turn("grep -rn total src", "src/a.py:1: total")
    for name, arguments, answer in (
        ("file_write", {"path": "a.py", "text": "one\ntwo\n"}, "written"),
        ("file_edit", {"path": "a.py", "old": "two", "new": "three"}, "done"),
        ("file_write", {"path": "a.py", "text": "one\nfour\n"}, "error: the disk is full"),
    ):
        made = call(name, arguments, name)
        grower.add(Author.POLICY, assistant("", made))
        grower.add(Author.ENVIRONMENT, tool_result(name, answer, name))
    done = work(grower.nodes)
    assert done["turns"] == 4
    assert [(each["command"], each["output"]) for each in done["terminals"]] == [
        ("grep -rn total src", "src/a.py:1: total")
    ]
    assert [each["what"] for each in done["searches"]] == ["grep -rn total src"]
    written, edited, failed = done["files"]
    assert [(each["new"], each["text"]) for each in written["diff"]] == [(1, "one"), (2, "two")]
    changed = [(each["kind"], each.get("old"), each.get("new"), each["text"]) for each in edited["diff"]]
    assert changed[-2:] == [("-", 2, None, "two"), ("+", None, 2, "three")] and not edited["failed"]
    gone = [each["text"] for each in failed["diff"] if each["kind"] == "-"]
    assert failed["failed"] and "three" in gone, "a diff is against what the agent had made of the file"
    assert [each["turn"] for each in work(grower.nodes, after=2)["files"]] == [3, 4]


def test_what_is_shown_is_text_and_bounded() -> None:
    grower = Grower("r", "terminal/a", opening="x" * 300_000)
    node = grower.nodes[1]
    assert len(line(node)["text"]) <= 400
    assert whole(node)["parts"][0]["cut"] == 100_000


async def test_a_slow_browser_holds_the_last_state_of_a_row_and_not_every_node() -> None:
    streams, grower, forest = Streams(), Grower("r", "terminal/a"), Forest()
    streams.begin(asyncio.get_running_loop())
    stream = streams.open("r", grower.tree)
    elsewhere = streams.open("other", "")
    forest.take(grower.nodes)
    for _ in range(5):
        stream.tell(forest.take(grower.turn()))
        elsewhere.tell(Change())
    told = json.loads((await stream.next(1.0) or b"").removeprefix(b"data: "))
    assert [row["turns"] for row in told["rows"]] == [5] and len(told["nodes"]) == 10
    for _ in range(MOST_NODES):
        stream.tell(forest.take(grower.turn()))
    told = json.loads((await stream.next(1.0) or b"").removeprefix(b"data: "))
    assert told["stale"] and len(told["nodes"]) <= MOST_NODES
    assert await stream.next(0.01) is None and await elsewhere.next(0.01) is None
    streams.close(stream)
    streams.close(elsewhere)


def test_users_have_roles_and_their_tokens_are_hashed(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    path.write_text(f"ann: {{role: admin, token: {hashed('a')}}}\nben: {{role: viewer, token: {hashed('b')}}}\n")
    users = read_users(path)
    ann, ben = users.of("a"), users.of("b")
    assert ann and ann.may("admin") and ben and ben.may("viewer") and not ben.may("guide")
    assert users.of("") is None and users.of(hashed("a")) is None and users.of("\ud800") is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "write one a line"),
        ("ann: admin", "needs role and token"),
        ("ann: {role: king, token: x}", "roles are"),
        ("ann: {role: admin, token: secret}", "sha256"),
        ("[", "cannot be read"),
        (f"a: {{role: admin, token: {'a' * 64}}}\nb: {{role: admin, token: {'a' * 64}}}", "same token"),
    ],
)
def test_a_file_of_users_that_is_none_is_refused_in_one_line(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "users.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=fault) as raised:
        read_users(path)
    assert "\n" not in str(raised.value)


def test_the_trail_keeps_who_did_what_and_says_when_it_cannot(tmp_path: Path) -> None:
    trail = Trail(tmp_path / "here" / "trail.jsonl")
    assert trail.read() == []
    trail.add("ann", "guide", "say", "begun", run="night", text="x" * 9_000)
    trail.add("ann", "guide", "say", "done")
    with trail.path.open("a") as file:
        file.write('{"at": 1, "b')
    last, first = trail.read()
    assert (last["went"], first["by"], first["run"], len(first["text"])) == ("done", "ann", "night", 2_000)
    assert trail.path.stat().st_mode & 0o077 == 0
    with pytest.raises(StoreError, match="nothing was done"):
        Trail(Path("/dev/null/no")).add("ann", "guide", "say", "begun")


def test_a_console_begun_in_the_middle_of_a_run_knows_what_has_ended_and_what_has_not(home: Path) -> None:
    ended, live, other = (Grower("r'1", "terminal/a", index) for index in range(3))
    for grower in (ended, live, other):
        grower.turn()
    with Lake.open(home / "lake") as writer:
        nodes = [*ended.nodes, *live.nodes, *other.nodes[2:]]
        writer.append_sync([run_record("r'1"), task_record("terminal/a"), *nodes, ended.end(0.5)])
        writer.compact()
        writer.append_sync(live.turn())
        reading = Reading(str(home / "lake"))
        try:
            reading.watch.start()
            rows = {row["id"]: (row["status"], row["turns"]) for row in reading.attempts()["rows"]}
            assert rows == {ended.id: ("completed", 1), live.id: ("running", 2), other.id: ("running", 1)}
        finally:
            reading.close()


def test_many_dots_of_a_plot_are_put_together() -> None:
    draws = [((7 * n) % 101 / 100, (11 * n) % 97 / 96) for n in range(5_000)]
    made = [
        Attempt(id=str(n), run="r", tree="t", slot="0.0", score=score, safety=safety)
        for n, (score, safety) in enumerate(draws)
    ]
    dots = scatter(made)
    assert len(dots) <= 21 * 21 and sum(dot["count"] for dot in dots) == 5_000
    assert scatter(made[:2]) == [
        {"score": score, "safety": round(safety, 2), "count": 1} for score, safety in sorted(draws[:2])
    ]


def test_a_message_by_a_person_is_marked_as_such() -> None:
    grower = Grower("r", "terminal/a")
    node = grower.add(Author.PERSON, user("[ann says:] stop that"), attributes={"words": ["w"]})
    assert line(node)["author"] == "person"
