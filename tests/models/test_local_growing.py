"""A streamed reply never shows what it must take back."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from silva.models.local.growing import Growing

END = 256
ALPHABET = b"ab <tool_cal> \n" + "é€😀".encode()


class Bytes:
    """A tokenizer of bytes: one id is one byte, `END` a mark."""

    ends = frozenset({END})

    def decode(self, ids: list[int], special: bool = False) -> str:
        """The text, the mark only where it is asked for."""
        text, run = "", bytearray()
        for number in ids:
            if number == END:
                text, run = text + run.decode("utf-8", "replace") + ("<end>" if special else ""), bytearray()
            else:
                run.append(number)
        return text + run.decode("utf-8", "replace")


def replay(ids: list[int], stops: list[str], special: bool = False) -> tuple[list[str], Growing, str]:
    """What is shown after each id, and how it ended."""
    growing = Growing(Bytes(), stops, ("<tool_call>",), special)  # type: ignore[arg-type]
    job = SimpleNamespace(ids=[], finish="")
    shown: list[str] = []
    for place, number in enumerate(ids):
        job.ids.append(number)
        job.finish = "stop" if number == END and not special else "length" if place == len(ids) - 1 else ""
        growing.grow(job)  # type: ignore[arg-type]
        if job.finish:
            break
        shown.append(growing.shown)
    return shown, growing, job.finish


@given(
    st.lists(st.sampled_from([*ALPHABET, END]), min_size=1, max_size=120),
    st.lists(st.text(st.sampled_from("ab <"), min_size=1, max_size=4), max_size=3),
    st.booleans(),
)
def test_what_is_shown_only_grows_and_is_the_beginning_of_the_whole(ids, stops, special) -> None:
    shown, growing, finish = replay(ids, stops, special)
    whole = growing.text
    assert all(whole.startswith(text) for text in shown)
    assert all(len(earlier) <= len(later) or "<tool_call>" in whole for earlier, later in pairwise(shown))
    assert not any(stop in whole for stop in stops)
    assert not any("<tool_call>" in text for text in shown)
    if not growing.stop:
        read = ids[: next((i for i, number in enumerate(ids) if number == END and not special), len(ids))]
        assert whole == Bytes().decode(read, special)
    else:
        assert finish == "stop" and growing.stop in stops


def test_a_long_reply_is_the_same_text_as_decoded_at_once() -> None:
    text = "a word and another, é and 😀. " * 40
    _, growing, _ = replay(list(text.encode()), ["zzz"])
    assert growing.text == text
    assert growing._settled_ids > 900  # it did not decode all of it again and again


def test_the_id_that_ended_it_is_no_text_and_is_named_where_it_was_asked_for() -> None:
    growing = Growing(Bytes(), (), special=True)  # type: ignore[arg-type]
    growing.grow(SimpleNamespace(ids=[*b"hi", END], finish="stop"))  # type: ignore[arg-type]
    assert (growing.text, growing.stop) == ("hi", None)
    growing = Growing(Bytes(), ())  # type: ignore[arg-type]
    growing.grow(SimpleNamespace(ids=[*b"hi!"], finish="stop"))  # type: ignore[arg-type]
    assert (growing.text, growing.stop) == ("hi", ord("!"))
