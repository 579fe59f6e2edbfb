"""What drops out is told by name, the first few of it, and the rest is counted."""

import pytest

from silva.train.left_out import left_out


@pytest.mark.parametrize(
    ("dropped", "told"),
    [
        ([], ""),
        (["a", "b", "c"], "left out: a\nleft out: b\nleft out: c\n"),
        (["a", "b", "c", "d", "e"], "left out: a\nleft out: b\nleft out: c\nleft out: 2 more\n"),
    ],
)
def test_the_first_three_are_named_and_the_rest_counted(dropped: list[str], told: str) -> None:
    assert left_out(dropped) == told
