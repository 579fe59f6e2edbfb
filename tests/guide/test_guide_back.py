"""Going back to an earlier turn: the environment stands there again, one trajectory counts, a kill changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from guiding import TASK, Told, asked, part, said_by, speaker

from silva.cli.trees_show import outcome
from silva.envs.gyms.arithmetic import Arithmetic
from silva.rollout.replay import replay
from silva.tree import Author

BACK = {"kind": "back", "to": TASK, "turn": 2, "why": "wrong way"}
FIFTY = '{"name": "add", "arguments": {"number": 50}}'


async def back(home: Path, words: dict[int, list[dict[str, Any]]], **fields: Any) -> Told:
    speaker(home, words)
    result, _ = await part(home, **fields)
    return Told(home, result)


async def test_after_going_back_the_policy_chooses_again_in_the_state_of_then(home: Path) -> None:
    told = await back(home, {3: [BACK]})
    left, last = told.attempts
    assert left.superseded and left.turns == 4 and left.outcome.status == "truncated"
    assert left.attributes["back"]["turn"] == 2 and left.attributes["back"]["by"] == "ann"
    assert told.last is last and last.attempt == 1 and last.turns == 5, "one counts, with all turns of its walk"
    assert last.usage.completion_tokens < left.usage.completion_tokens + last.usage.completion_tokens
    results = [text for who, text in told.story() if who == "environment"]
    assert results == ["total 0", "total 1", "total 3", "total 6"], "the adding began again after the first turn"
    assert asked(home) == [0, 1, 2, 3, 1, 2, 3, 4]
    shared = [node.id for node in told.walks[0] if node.id in {each.id for each in told.walk}]
    assert len(shared) == 4, "the opening and the first turn are the same nodes"
    actions = [[node for node in walk if node.author is Author.POLICY] for walk in told.walks]
    assert actions[0][1].parent_id == actions[1][1].parent_id and actions[0][1].id != actions[1][1].id
    (record,) = told.given
    assert (record.verdict, record.node_id, record.reason) == ("mask", actions[0][1].id, "wrong way")
    assert "truncated (left)" in outcome(left).plain, "nothing broke: somebody left it"
    assert "completed" in outcome(last).plain and "(left)" not in outcome(last).plain
    assert told.result.exit_code == 0 and told.result.remaining == 0


async def test_where_a_snapshot_stands_it_is_taken_up_and_nothing_is_done_again(home: Path) -> None:
    told = await back(home, {3: [{**BACK, "turn": 3}]}, snapshots={"every": 1})
    restored = told.last.attributes["returned"]["restored"]
    assert restored["by"].startswith("snapshot ") and restored["replayed"] == 0 and "passed_over" not in restored
    assert [text for who, text in told.story() if who == "environment"] == ["total 0", "total 1", "total 3", "total 6"]


async def test_the_action_given_is_the_persons_and_is_really_taken(home: Path) -> None:
    told = await back(home, {3: [{**BACK, "action": FIFTY}]})
    taken = told.walk[4]
    assert taken.author is Author.PERSON and taken.message.role == "assistant" and taken.tokens is None
    assert taken.message.tool_calls[0].parsed() == {"number": 50}
    assert told.walk[5].message.text == "total 50" and told.last.turns == 5
    assert asked(home) == [0, 1, 2, 3, 2, 3, 4], "the model was not asked for that turn"
    by_node = {each.node_id: each for each in told.given}
    assert by_node[taken.id].by == "ann" and by_node[taken.id].attributes["why"] == "wrong way"
    from silva.lake import Lake

    with Lake.open(home / "lake", mode="read") as lake:
        task = next(each for each in lake.tasks() if each.id == TASK)
    again = await replay(Arithmetic(), task, 0, told.walk)
    assert again.divergence is None and again.turns == told.last.turns


async def test_words_that_go_with_it_come_before_the_new_choice(home: Path) -> None:
    told = await back(home, {3: [{**BACK, "text": "now say 7"}]})
    assert "now say 7" in told.walk[4].message.text and told.walk[4].author is Author.PERSON
    assert told.walk[-1].message.text == "7" and told.last.turns == 2


async def test_what_was_heard_before_is_not_heard_again_and_what_was_forbidden_stays(home: Path) -> None:
    words = {
        0: [{"kind": "say", "text": "hello"}, {"kind": "forbid", "pattern": "number.: 9"}],
        2: [{"kind": "say", "text": "careful"}],
        3: [{"kind": "say", "text": "unheard yet"}, {**BACK, "turn": 2}, {"kind": "say", "text": "and this"}],
    }
    told = await back(home, words)
    people = said_by(Author.PERSON, told.walk)
    assert len(people) == 2 and "hello" in people[0], "what was said before the turn is on the walk"
    assert "unheard yet" in people[1] and "and this" in people[1] and "careful" not in " ".join(people)
    assert [kind for kind, _, _ in told.kinds()] == ["back", "forbid", "say", "say", "say", "say"]


@pytest.mark.slow
async def test_edit_where_nothing_waits_goes_back_and_takes_the_action(home: Path) -> None:
    told = await back(home, {2: [{"kind": "edit", "to": TASK, "turn": 1, "action": FIFTY}]})
    assert said_by(Author.ENVIRONMENT, told.walk)[2] == "total 50" and told.last.attempt == 1


@pytest.mark.slow
async def test_back_to_the_first_turn_begins_the_task_again(home: Path) -> None:
    told = await back(home, {2: [{**BACK, "turn": 1}]})
    assert told.last.attempt == 1 and asked(home) == [0, 1, 2, 0, 1, 2, 3, 4]


async def test_back_during_the_last_turn_is_heard_and_words_then_are_kept(home: Path) -> None:
    told = await back(home, {4: [BACK, {"kind": "say", "text": "too late?"}]})
    assert told.last.attempt == 1 and "too late?" in " ".join(said_by(Author.PERSON, told.walk))


async def test_words_at_the_last_turn_are_kept_though_nobody_acts_on_them(home: Path) -> None:
    speaker(home, {4: [{"kind": "say", "text": "too late"}]})
    result, overseer = await part(home)
    told = Told(home, result)
    assert [each.reason for each in told.given] == ["too late"] and not said_by(Author.PERSON, told.walk)
    assert [(kind, facts["text"]) for kind, facts in overseer.events] == [("undone", "the episode was over")]


async def test_a_turn_that_was_not_taken_cannot_be_gone_back_to(home: Path) -> None:
    speaker(home, {0: [{**BACK, "turn": 0}], 1: [{**BACK, "turn": 9}]})
    result, overseer = await part(home)
    told = Told(home, result)
    assert told.last.attempt == 1, "turn 0 is the last one"
    assert [facts["text"] for kind, facts in overseer.events if kind == "undone"] == [
        "turn 9 has not been taken: there are 2"
    ]
    assert sum("not done" in each.reason for each in told.given) == 1


async def test_of_two_people_who_contradict_each_other_the_later_counts_and_both_are_kept(home: Path) -> None:
    words = {3: [{"kind": "stop", "by": "ann"}, {**BACK, "by": "bob"}]}
    told = await back(home, words)
    assert told.last.attempt == 1 and told.last.turns == 5 and "stopped" not in told.last.attributes
    assert told.kinds() == [("back", "mask", "bob"), ("stop", "note", "ann")]


@pytest.mark.slow
async def test_stop_after_back_ends_the_new_attempt(home: Path) -> None:
    told = await back(home, {3: [BACK, {"kind": "stop", "by": "bob"}]})
    assert told.last.attempt == 1 and told.last.turns == 1 and told.last.attributes["stopped"]["by"] == "bob"


@pytest.mark.slow
async def test_going_back_twice_and_a_retry_begin_where_they_should(home: Path) -> None:
    told = await back(home, {3: [BACK], 4: [{**BACK, "turn": 3, "why": "again"}]})
    assert [each.attempt for each in told.attempts] == [0, 1, 2] and told.last.turns == 5
    assert [each.superseded for each in told.attempts] == [True, True, False]
    assert asked(home) == [0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4]


@pytest.mark.slow
@pytest.mark.parametrize("cut", range(11))
async def test_a_run_that_is_cut_off_anywhere_and_resumed_comes_out_the_same(home: Path, cut: int) -> None:
    words = {1: [{"kind": "say", "text": "hello"}], 3: [{**BACK, "action": FIFTY}], 4: [{"kind": "good", "turn": 2}]}
    whole, parts = home / "whole", home / "parts"
    stories = []
    for folder, cuts in ((whole, -1), (parts, cut)):
        folder.mkdir()
        speaker(folder, words)
        result, _ = await part(folder, cut=cuts)
        if result.remaining:
            result, _ = await part(folder, resume=True)
        told = Told(folder, result)
        done = [(who, text) for who, text in told.story() if "says:" not in text]
        stories.append((done, told.kinds(), [each.superseded for each in told.attempts], told.last.turns))
        people = [text for who, text in told.story() if "says:" in text]
        assert len(people) == len(set(people)), "nothing is said twice"
    assert stories[0] == stories[1]
