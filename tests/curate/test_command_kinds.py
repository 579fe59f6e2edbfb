"""What a command shows, changes and asks is told from what a shell reads, not from how it was written down."""

from __future__ import annotations

import pytest

from silva.curate.mask.kinds import Kinds
from silva.curate.turn import Call

KINDS = Kinds()


def run(command: str) -> Call:
    return Call("session_run", {"command": command})


@pytest.mark.parametrize(
    ("command", "viewed", "edited", "written"),
    [
        ("cat 'my notes.txt' | tee copy.txt", {"my notes.txt"}, set(), {"copy.txt"}),
        ("sed -i -e s/a/b/ one.py two.py", set(), {"one.py", "two.py"}, set()),
        ("sed -n 1,5p one.py", {"1,5p", "one.py"}, set(), set()),
        ('bash -c "cat inner.py >> log"', {"inner.py"}, {"log"}, set()),
        ("echo 'cat > secret' >out", set(), set(), {"out"}),
        ("make 2>/dev/null >| built.txt", set(), set(), {"built.txt"}),
        ("tee -a log < in.txt", set(), {"log"}, set()),
        ("# cat hidden\nls", set(), set(), set()),
    ],
)
def test_files_are_those_that_programs_open(
    command: str, viewed: set[str], edited: set[str], written: set[str]
) -> None:
    call = run(command)
    assert (KINDS.viewed(call), KINDS.edited(call), KINDS.written(call)) == (viewed, edited, written)


def test_copies_into_a_folder_stand_in_it() -> None:
    assert KINDS.copied(run("mv -v a 'b c'")) == [("a", "b c")]
    assert KINDS.copied(run("cp x/a y/b there/")) == [("x/a", "there/a"), ("y/b", "there/b")]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("ls  -l   'a'  # once more", 'ls -l "a"', True),
        ("a\nb\n", "a; b", True),
        ("a && b", "a; b", False),
        ("for i in 1 2; do run $i; done", "for i in 1 2 3; do run $i; done", False),
        ("x=1 run", "x=1; run", False),
        ("echo 'open", "echo 'open ", False),
    ],
)
def test_two_commands_are_one_deed_where_a_shell_reads_the_same(one: str, other: str, same: bool) -> None:
    assert (KINDS.deed(run(one)) == KINDS.deed(run(other))) is same


@pytest.mark.parametrize(
    ("command", "changes", "compares"),
    [
        ("grep -r 'a > b' . 2>/dev/null", False, True),
        ("cat a && [ -f b ]", False, True),
        ("find . -name '*.pyc' -delete", True, False),
        ("find . -type f | wc -l", False, False),
        ("echo $(rm -r x)", True, False),
        ("env A=1 make", True, False),
        ("grep x f; echo done", False, False),
    ],
)
def test_what_only_looks_changes_nothing(command: str, changes: bool, compares: bool) -> None:
    assert (KINDS.changes(run(command)), KINDS.compares(run(command))) == (changes, compares)
