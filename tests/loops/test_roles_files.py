"""Writers for the files gym, a grammar and a model: worlds of training; what is not whole or solvable is refused.

What plays the tasks is slow and needs `silva envs install files`.
"""

import json
from pathlib import Path

import pytest

from silva.envs import HostPool, Registry
from silva.envs.gyms.files.environment import Files
from silva.envs.gyms.files.grammar.seeds import TEST
from silva.envs.gyms.files.tasks import own
from silva.envs.protocol import Goal
from silva.errors import MissingError, UsageError
from silva.loops.roles import RoleError, make
from silva.loops.roles.candidate import Candidate
from silva.loops.roles.embedded.files_writing import placed
from silva.loops.roles.held import Held
from silva.loops.roles.validation import ValidationConfig, Validator
from silva.models.scripted import Script, ScriptedServer
from silva.tree import Task

PLACE = Task(id="files/train/0", env="files")
CSV = {"kind": "csv", "rows": [["item", "pieces"], ["rope", 3], ["salt", 4]]}


async def test_the_grammar_writes_other_questions_each_time_and_none_in_the_tests_worlds():
    writer = make("writer", "files")
    first = await writer.write(None, PLACE, 60, 1)
    assert len({each.goal.words for each in first}) == 60
    assert [each.goal.words for each in first] == [each.goal.words for each in await writer.write(None, PLACE, 60, 1)]
    more = await writer.write(None, PLACE, 60, 2, [each.goal.words for each in first])
    assert not {each.goal.words for each in first} & {each.goal.words for each in more}
    assert len({each.goal.pattern for each in (*first, *more)}) > 40
    names = {name for theme in TEST for name in (*theme.places, *theme.people)}
    text = json.dumps([[each.goal.words, each.place.data] for each in (*first, *more)])
    assert not [name for name in names if f" {name} " in text or f'"{name}"' in text]
    assert not {each.instruction for each in own("test")} & {each.goal.words for each in (*first, *more)}
    for each in first:
        assert each.acted[0].by == "files" and each.notes["theme"] and len(each.solution) >= 2
        assert {need["path"] for need in each.notes["needs"]} == {*each.place.data["files"]}


@pytest.mark.parametrize(
    "options, why",
    [
        ({"themes": ["bakery"]}, "is the tests'"),
        ({"themes": ["moon"]}, "no world 'moon'"),
        ({"patterns": ["nonsense"]}, "no pattern 'nonsense'"),
        ({"levels": [4]}, "1, 2 and 3 there are"),
    ],
)
def test_options_that_cannot_be_are_refused(options, why):
    with pytest.raises(UsageError, match=why):
        make("writer", "files", options)


@pytest.mark.parametrize(
    "data, why",
    [
        ({}, "no check"),
        ({"check": {"answer": {"none": ["x"]}}}, "no list `all`"),
        ({"check": {"answer": {"all": [["7"]]}}, "solution": [{"tool": "fly", "arguments": {}}]}, "no tool 'fly'"),
        ({"check": {"answer": {"all": [["7"]]}}, "missing": ["b.csv"]}, "not described: b.csv"),
        ({"check": {"answer": {"all": [["many"]]}}}, "gives its answer away"),
        ({"check": {"files": [{"path": "x"}]}}, "a condition on a file is none of"),
    ],
)
async def test_a_goal_that_is_not_whole_is_no_task(data, why):
    place = placed("files", {"a.csv": CSV}, {})
    with pytest.raises(UsageError, match=why):
        await Files().task(place, Goal(words="How many are there?", data=data))
    with pytest.raises(UsageError, match="of kind 'movie'"):
        goal = Goal(words="?", data={"check": {"answer": {"all": [["7"]]}}})
        await Files().task(placed("files", {"a": {"kind": "movie"}}, {}), goal)


async def test_a_place_offers_questions_and_an_answer_found_out_is_one_of_them():
    env, place = Files(), placed("files", {"a.csv": CSV}, {})
    goals = await env.goals(place)
    assert goals[0].words == "What is the total of the column pieces in a.csv?"
    made = await env.task(place, goals[0])
    await env.reset(made, 0)
    taken = [await env.expert()]
    await env.step(taken[0])
    taken.append(await env.expert())
    (found,) = await env.achieved(place, taken)
    assert found.goal == goals[0] and found.turn == 2
    assert await env.achieved(place, taken[1:]) == ()  # a guess, which no result says
    assert made.data["goal"]["check"] and (await env.task(place, goals[0])).id == made.id
    await env.reset(made, 0)
    assert any(act.tool_calls[0].name == "query_table" for act in await env.actions())


async def test_a_model_writes_questions_then_files_and_what_it_cost_is_told():
    script = Script(function="files_replies.py:reply", folder=str(Path(__file__).parent))
    with ScriptedServer(script) as server:
        writer = make("writer", "files-endpoint", {"model": f"{server.url}#scripted"})
        one, other = await writer.write(None, PLACE, 2, 0)
    assert one.goal.words == "How many pieces in a.csv?" and [deed.by for deed in one.acted] == ["files-endpoint"] * 2
    assert all(deed.prompt and deed.prompt_tokens for deed in one.acted)
    assert other.goal.data["missing"] == ["b.csv"]
    made = await Files().task(one.place, one.goal)
    assert made.data["files"]["a.csv"] == CSV
    with ScriptedServer(script) as server:
        writer = make("writer", "files-endpoint", {"model": f"{server.url}#scripted", "themes": ["dairy"]})
        with pytest.raises(RoleError, match="no usable answer"):
            await writer.write(None, PLACE, 1, 0)


@pytest.mark.slow
async def test_what_the_grammar_writes_is_whole_solvable_and_no_copy_and_what_is_wrong_is_refused():
    try:
        pool = HostPool(Registry.load().entry("files"), step_timeout=300)
    except MissingError as error:
        pytest.skip(str(error))
    async with pool:
        async with pool.lease() as env:
            held = await Held.of(env, list(own("test"))[::3])
            written = await make("writer", "files", {"patterns": ["total", "minutes", "counted"]}).write(
                env, PLACE, 9, 3
            )
        wrong = Goal(
            words="How many pieces in all?",
            data={
                "check": {"answer": {"all": [["9"]]}},
                "solution": [
                    {"tool": "query_table", "arguments": {"path": "a.csv", "sql": "select sum(pieces) from t"}},
                    {"tool": "answer", "arguments": {"text": "$r1[0][0]"}},
                ],
            },
        )
        copied = Candidate(place=next(iter(own("test"))), goal=wrong)
        candidates = [*written, Candidate(place=placed("files", {"a.csv": CSV}, {}), goal=wrong), copied]
        found = await Validator(pool.lease, held, ValidationConfig(expert=True)).validate(candidates)
    assert [each.reason for each in found] == [""] * 9 + ["infeasible", "copy"], [each.why for each in found]
    assert all(each.similarity is not None and each.similarity < 0.95 for each in found[:9])
