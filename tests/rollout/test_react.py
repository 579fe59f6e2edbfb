from silva.rollout.react import parse, render
from silva.tree import Tool, ToolCall, assistant, system, tool_result, user

TOOLS = (Tool(name="add", description="Add.", parameters={"type": "object"}),)


def test_tools_are_told_in_one_system_message_and_results_come_as_observations():
    history = (
        system("Be brief."),
        user("2+3?"),
        assistant("", ToolCall(id="1", name="add", arguments='{"a": 2}')),
        tool_result("1", "5"),
    )
    rendered = render(history, TOOLS)
    assert [m.role for m in rendered] == ["system", "user", "assistant", "user"]
    assert "Be brief." in rendered[0].text and "- add: Add." in rendered[0].text
    assert rendered[2].text == 'Action: add\nAction Input: {"a": 2}'
    assert rendered[3].text == "Observation: 5"


def test_the_form_is_shown_with_the_arguments_a_tool_requires():
    parameters = {
        "type": "object",
        "properties": {"way": {"enum": ["left", "right"]}, "steps": {"type": "integer"}, "why": {"type": "string"}},
        "required": ["way", "steps"],
    }
    shown = render((user("go"),), (Tool(name="walk", description="", parameters=parameters),))[0].text
    example = shown.rpartition("looks like this:\n")[2]
    (call,) = parse(assistant(example), 0).tool_calls
    assert (call.name, call.parsed()) == ("walk", {"way": "left", "steps": 1})


def test_two_results_in_a_row_become_one_user_message():
    rendered = render((user("go"), assistant("x"), tool_result("1", "a"), tool_result("2", "b")), ())
    assert [m.role for m in rendered] == ["user", "assistant", "user"]
    assert "Observation: a" in rendered[2].text and "Observation: b" in rendered[2].text


def test_the_first_action_is_read_and_the_text_is_kept():
    text = 'I add.\nAction: add\nAction Input: {"a": 2, "b": {"c": 1}}\nObservation: made up'
    message = parse(assistant(text), 4)
    assert message.text == text
    assert message.tool_calls == (ToolCall(id="react-4", name="add", arguments='{"a": 2, "b": {"c": 1}}'),)


def test_a_fenced_input_is_read():
    message = parse(assistant('Action: add\nAction Input: ```json\n{"a": 1}\n```'), 0)
    assert message.tool_calls[0].arguments == '{"a": 1}'


def test_malformed_input_is_passed_on_as_it_is():
    message = parse(assistant("Action: add\nAction Input: a=2"), 0)
    assert message.tool_calls[0].arguments == "a=2"


def test_an_action_without_input_has_no_arguments():
    assert parse(assistant("Action: finish"), 0).tool_calls[0].parsed() == {}


def test_plain_words_are_an_answer():
    assert parse(assistant("The answer is 5."), 0).tool_calls == ()
