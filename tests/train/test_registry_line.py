"""A line of policies is what its events add up to, whatever is tried in whatever order."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silva.errors import StoreError, UsageError
from silva.train.registry import Base, Event, Line, PolicyVersion, line_and_number
from silva.train.registry.version import check_line

BASE = Base(name="small", digest="0123456789ab", tensors="f" * 64)


def version(number: int, parent: str = "") -> PolicyVersion:
    return PolicyVersion(line="tools", number=number, kind="adapter" if number else "base", base=BASE, parent=parent)


def begun() -> Line:
    return Line("tools", [Event(what="begun", number=0, at=0.0, record=version(0))])


def registered(line: Line, parent: str = "tools-0") -> Event:
    number = len(line.versions)
    return Event(what="registered", number=number, at=1.0, record=version(number, parent))


STEPS = st.lists(
    st.tuples(st.sampled_from(["registered", "promoted", "rolled back", "rejected", "published"]), st.integers(-1, 6)),
    max_size=30,
)


@given(STEPS)
def test_refused_events_change_nothing_and_replaying_the_others_gives_the_same_line(
    steps: list[tuple[str, int]],
) -> None:
    line = begun()
    for what, number in steps:
        before = (line.head, list(line.statuses), len(line.events))
        event = Event(what=what, number=number, at=2.0, before=line.head if what == "rolled back" else None)  # type: ignore[arg-type]
        if what == "registered":
            event = registered(line)
        try:
            line.check(event)
        except UsageError as refusal:
            with suppress(StoreError):
                line.apply(event)
            assert (line.head, line.statuses, len(line.events)) == before and str(refusal)
            continue
        line.apply(event)
        assert line.status(line.versions[line.head]) == "promoted"
        assert [each.number for each in line.versions] == list(range(len(line.versions)))
    again = Line("tools", line.events)
    assert (again.head, again.statuses, again.versions) == (line.head, line.statuses, line.versions)


def test_a_rollback_goes_to_the_parent_step_by_step_and_ends_at_the_beginning() -> None:
    line = begun()
    line.apply(registered(line))
    line.apply(Event(what="promoted", number=1, at=2.0, before=0))
    line.apply(registered(line, "tools-1"))
    line.apply(Event(what="promoted", number=2, at=3.0, before=1))
    for expected in (1, 0):
        target = line.rollback_target(None)
        assert target.number == expected
        line.apply(Event(what="rolled back", number=target.number, at=4.0, before=line.head))
    assert line.statuses == ["promoted", "rolled back", "rolled back"]
    with pytest.raises(UsageError, match="nothing to roll back to"):
        line.rollback_target(None)


def test_the_number_of_a_node_s_version_is_found_by_either_of_its_names() -> None:
    line = begun()
    line.apply(registered(line))
    assert [line.number(name) for name in ("tools-1", "tools-0", "small@0123456789ab")] == [1, 0, 0]
    assert [line.number(name) for name in ("tools-2", "tools-01", "other-1", "", "small@ba9876543210")] == [None] * 5
    with pytest.raises(UsageError, match=r"'tools-7'; line tools has tools-0, tools-1"):
        line.find("tools-7")


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", fullmatch=True), st.integers(0, 10**9 - 1))
def test_a_version_s_name_says_its_line_and_number(line: str, number: int) -> None:
    if line_and_number(line) is not None:
        with pytest.raises(UsageError, match="reads like"):
            check_line(line)
        return
    check_line(line)
    assert line_and_number(f"{line}-{number}") == (line, number)
