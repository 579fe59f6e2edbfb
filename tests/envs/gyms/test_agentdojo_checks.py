"""A state of before, kept as bytes: equal to what it was, and made of the objects that did not change since."""

from __future__ import annotations

from pydantic import BaseModel

from silva.envs.gyms.agentdojo_checks import Before
from silva.envs.gyms.agentdojo_state import _follows


class Letter(BaseModel):
    to: str
    body: str


class Desk(BaseModel):
    letters: dict[str, Letter]
    notes: list[str]
    total: int = 0


def desk() -> Desk:
    return Desk(letters={each: Letter(to=each, body="x") for each in "abc"}, notes=["one"])


def test_what_is_as_it_was_is_the_very_same_and_the_rest_is_as_it_was() -> None:
    state, was = desk(), desk()
    before = Before(state)
    assert before.within(state) is state and before.copy() == was and before.copy() is not state
    state.letters["b"].body = "y"
    state.notes.append("two")
    seen = before.within(state)
    assert seen == was != state
    assert seen.letters["a"] is state.letters["a"] and seen.letters["b"] is not state.letters["b"]
    assert before.within(state).letters is seen.letters, "what did not change since it was asked is not compared again"
    state.letters["a"].body = "z"
    assert before.within(state) == was and before.within(state).letters["c"] is state.letters["c"]
    state.letters["a"].body, state.letters["b"].body = "x", "x"
    state.notes.pop()
    assert before.within(state) is state, "what was undone is as it was"
    del state.letters["c"]
    assert before.within(state) == was


def test_a_field_that_is_no_plain_text_is_read_again() -> None:
    assert not _follows(Letter, "body") and _follows(Desk, "total")
