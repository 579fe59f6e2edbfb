"""Clients that rewrite their history keep one conversation: copies say which sampled node they stand for, and what the
model saw is never taken for anything else."""

from __future__ import annotations

from typing import Any

from test_sessions import Program

from silva.tree import (
    Author,
    Message,
    Node,
    Outcome,
    Status,
    TextPart,
    ThinkingPart,
    ToolCall,
    assistant,
    system,
    tool_result,
    user,
)
from silva.tree.copies import REPEATS, REWRITES, copy_of, turns_on

SYSTEM, TASK = system("s"), user("mend it")


def call(name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(id=name, name="look", arguments=arguments)


def main_walk(program: Program) -> list[Node]:
    return list(program.tree.walk(program.session.leaf or ""))


def samples_of(program: Program) -> list[Any]:
    from silva.train.samples import SampleReader

    outcome = Outcome(status=Status.COMPLETED, score=1.0)
    trajectory = program.session.trajectory(outcome, attributes={"leaves": program.session.leaves})
    return SampleReader(program.tree).samples(trajectory)


def is_whole(program: Program, turns: int) -> None:
    """All turns are on the main walk, each with its ids, and each carries loss once, behind what the model really
    saw."""
    walk = main_walk(program)
    assert len(turns_on(walk)) == turns == program.session.turns
    for node in walk:
        if node.message.role == "assistant" and node.author is not Author.POLICY:
            original = program.nodes[copy_of(node)]
            assert original.author is Author.POLICY and node.tokens is None
    told = {action.node_id: sample for sample in samples_of(program) for action in sample.actions}
    assert set(told) == set(turns_on(walk))
    carried = 0
    for name, drawn in program.drawn.items():
        sample = told[name]
        action = next(each for each in sample.actions if each.node_id == name)
        assert tuple(sample.ids[: action.stop]) == drawn
        carried += sum(each.mask.sum() for each in [sample])
    assert carried >= 3 * turns


def test_what_moves_to_the_end_of_the_history_at_each_turn() -> None:
    program = Program()
    turns = [assistant(f"step {place}", call(f"c{place}")) for place in range(3)]
    thought = [
        Message(role="assistant", parts=(ThinkingPart(text="hm"), *turn.parts), tool_calls=turn.tool_calls)
        for turn in turns
    ]
    asked = [SYSTEM, TASK]
    for place, turn in enumerate(turns):
        program.ask([*asked, user(f"context {place}")], thought[place], ids=True)
        asked += [turn, tool_result(f"c{place}", "seen")]
    walk = main_walk(program)
    assert [node.attributes.get(REPEATS) is not None for node in walk].count(True) == 2
    assert [node.message for node in walk if REPEATS in node.attributes] == thought[:2], "told as it was sampled"
    is_whole(program, 3)


def test_replies_written_anew_as_other_words() -> None:
    program = Program()
    asked = [SYSTEM, TASK]
    for place in range(3):
        program.ask(asked, assistant("", call(f"c{place}")), ids=True)
        asked += [assistant(f"Calling tools: look c{place}"), user(f"Observation: {place}")]
    walk = main_walk(program)
    copies = [node for node in walk if REWRITES in node.attributes]
    assert [node.message.text for node in copies] == ["Calling tools: look c0", "Calling tools: look c1"]
    assert all(node.slot == "0.0" for node in copies), "no rollout's words are another's"
    is_whole(program, 3)


def test_arguments_that_a_client_changed_are_its_own_words() -> None:
    program = Program()
    program.ask([TASK], assistant("", call("c1", '{"path": "a"}')), ids=True)
    changed = assistant("", call("c1", '{"path": "b"}'))
    program.ask([TASK, changed, tool_result("c1", "seen")], assistant("done"), ids=True)
    walk = main_walk(program)
    assert walk[1].message == changed and walk[1].attributes[REWRITES] in program.nodes
    is_whole(program, 2)


def test_a_system_prompt_with_the_time_in_it_is_one_conversation() -> None:
    program = Program()
    said: list[Message] = []
    for place in range(4):
        said.append(user(f"question {place}"))
        program.ask([system(f"it is {place} o'clock"), *said], assistant(f"answer {place}"), ids=True)
        said.append(assistant(f"answer {place}"))
    program.ask([system("title"), user("question 0")], assistant("A title"), ids=True)
    walk = main_walk(program)
    assert walk[-1].message.text == "answer 3", "an aside is not what it was about"
    assert len(turns_on(walk)) == 4


def test_words_a_client_puts_into_the_models_mouth_are_sent_as_they_are() -> None:
    program = Program()
    program.ask([system("one"), user("2+2?")], assistant("4"))
    shots = [system("two"), user("1+3?"), assistant("4 "), user("2+3?")]
    place = program.session.match(shots, ())
    assert list(place.messages) == shots


def test_copies_are_known_again_from_the_lake() -> None:
    program = Program()
    asked = [SYSTEM, TASK]
    for place in range(2):
        program.ask(asked, assistant(f"step {place}", call(f"c{place}")), ids=True)
        asked += [Message(role="assistant", parts=(TextPart(text=f"I did {place}"),)), user(f"seen {place}")]
    from test_sessions import new_session

    again = Program(new_session())
    again.session.load(program.nodes.values())
    again.nodes, again.drawn, again.asked = program.nodes, program.drawn, 10
    again.ask(asked, assistant("done"), ids=True)
    is_whole(again, 3)


def test_words_written_anew_behind_the_same_thinking() -> None:
    program = Program()
    thoughts = [
        Message(role="assistant", parts=(ThinkingPart(text=f"hm {n}"), TextPart(text=f"say {n}"))) for n in (0, 1)
    ]
    for place, thought in enumerate(thoughts):
        program.ask([SYSTEM, TASK, *([user("go on")] * place)], thought)
    other = Message(role="assistant", parts=(ThinkingPart(text="hm 0"), TextPart(text="shortened")))
    program.ask([system("again"), user("what was it?"), user("well?"), other, user("go on")], assistant("done"))
    copies = {node.message.text: program.nodes[copy_of(node)].message for node in main_walk(program) if copy_of(node)}
    assert copies == {"shortened": thoughts[0]}
