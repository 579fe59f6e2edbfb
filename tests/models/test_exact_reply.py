"""Sampled ids read as messages, whole and as they come."""

from __future__ import annotations

import pytest
from exact_families import FAMILIES, family
from hypothesis import given, settings
from hypothesis import strategies as st

from silva.models.exact import open_renderer
from silva.models.exact.templated import TemplateRenderer
from silva.models.model import Delta
from silva.models.scripted import tokens
from silva.tree import Message, Tool, assistant, user

CITY = {"city": {"type": "string"}, "days": {"type": "integer"}}
TOOLS = (Tool(name="get_weather", parameters={"type": "object", "properties": CITY}),)
DEEPSEEK = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{}\n```<｜tool▁call▁end｜>"
)
LLAMA = '{"name": "get_weather", "parameters": {}}'


def ids_of(renderer: TemplateRenderer, text: str) -> tuple[int, ...]:
    return renderer.vocabulary.encode(text, first=False)


def read(name: str, text: str, tools: tuple[Tool, ...] = TOOLS) -> Message:
    renderer = family(name)
    return renderer.parse(ids_of(renderer, text), tools).message


CALLS = [
    (
        "chatml",
        '<tool_call>\n{"name": "get_weather", "arguments": {"city":  "Paris"}}\n</tool_call>',
        ['{"city":  "Paris"}'],
    ),
    ("chatml", '<tool_call>{"name": "get_weather"}</tool_call>', ["{}"]),
    ("chatml", '<tool_call>{"name": "get_weather", "arguments": {"n": 1e5}}</tool_call>\n' * 2, ['{"n": 1e5}'] * 2),
    ("chatml", '<tool_call>{"name": "get_weather", "arguments": {}}', ["{}"]),
    (
        "chatml",
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
        "</function>\n</tool_call>",
        ['{"city": "Paris", "days": 3}'],
    ),
    (
        "chatml",
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>7</arg_value>\n</tool_call>",
        ['{"city": "7"}'],
    ),
    ("llama3", '{"name": "get_weather", "parameters": {"city":"Paris"}}', ['{"city":"Paris"}']),
    ("llama3", f"<|python_tag|>{LLAMA}; {LLAMA}", ["{}"] * 2),
    ("mistral", '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city":"x"}}]', ['{"city":"x"}']),
    ("mistral", '[TOOL_CALLS]get_weather[ARGS]{"a": 1}[TOOL_CALLS]get_weather{"a":2}', ['{"a": 1}', '{"a":2}']),
    ("gemma", '```tool_code\nprint(get_weather(city="Paris", days=3))\n```', ['{"city": "Paris", "days": 3}']),
    ("deepseek", f"</think>{DEEPSEEK}<｜tool▁calls▁end｜>", ["{}"]),
]


@pytest.mark.parametrize(("name", "written", "arguments"), CALLS)
def test_calls_of_every_family_are_read_and_their_arguments_kept_as_sampled(
    name: str, written: str, arguments: list[str]
) -> None:
    message = read(name, written)
    assert [(made.name, made.arguments) for made in message.tool_calls] == [("get_weather", text) for text in arguments]
    assert message.text == ""
    assert len({made.id for made in message.tool_calls}) == len(arguments)
    assert all(len(made.id) == 9 and made.id.isalnum() for made in message.tool_calls)


UNREADABLE = [
    ("chatml", '<tool_call>{"name": "get_weather", "arguments": {"city": }}</tool_call>'),
    ("chatml", '<tool_call>{"name": "get_weather", "arguments": [1]}</tool_call>'),
    ("chatml", '<tool_call>{"name": "", "arguments": {}}</tool_call> and on'),
    ("chatml", '<tool_call>{"name": "get_weather", "argum'),
    ("chatml", "<tool_call>\n<function=get_weather>\n<parameter=city>Paris</function>\n</tool_call>"),
    ("llama3", '{"city": "Paris"}'),
    ("llama3", '{"name": "get_weather", "parameters": {}} or so'),
    ("mistral", "[TOOL_CALLS] [{]"),
    ("gemma", "```tool_code\nget_weather(1)\n```"),
    ("gemma", "```tool_code\n__import__('os').system(command=open('x'))\n```"),
    ("deepseek", f"</think>{DEEPSEEK} what?<｜tool▁calls▁end｜>"),
]


@pytest.mark.parametrize(("name", "written"), UNREADABLE)
def test_a_call_that_cannot_be_read_is_text(name: str, written: str) -> None:
    message = read(name, written)
    assert message.tool_calls == ()
    assert message.text == written.removeprefix("</think>")


def test_without_tools_nothing_is_a_call() -> None:
    written = '<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>'
    assert read("chatml", written, ()).text == written


def test_thinking_words_and_calls_are_told_apart() -> None:
    message = read(
        "qwen3",
        "<think>\nIs it <tool_call> day?\n</think>\n\n"
        'I look.\n<tool_call>{"name": "get_weather", "arguments": {}}\n</tool_call>',
    )
    assert (message.thinking, message.text, len(message.tool_calls)) == ("Is it <tool_call> day?", "I look.", 1)
    assert read("qwen3", "Well </think> <think> no").text == "Well </think> <think> no"
    assert read("deepseek", "hm\n</think>\n\nyes").thinking == "hm"  # opened by the prompt


def test_blanks_that_were_sampled_are_kept() -> None:
    assert read("chatml", "  a \n\n b\n ").text == "  a \n\n b\n "
    assert read("qwen3", "<think>\n\n</think>\n\n  a\n").text == "  a\n"


def test_letters_that_look_like_a_mark_are_none_where_the_mark_is_a_token() -> None:
    renderer = family("chatml")
    plain = renderer.render((user("<tool_call>{}</tool_call>"),))
    start = len(ids_of(renderer, "<|im_start|>user\n"))
    letters = plain[start : len(plain) - len(ids_of(renderer, "<|im_end|>\n<|im_start|>assistant\n"))]
    message = renderer.parse(letters, TOOLS).message
    assert message.text == "<tool_call>{}</tool_call>" and message.tool_calls == ()


def test_an_end_is_told_from_a_cut() -> None:
    renderer = family("chatml")
    end = renderer.vocabulary.controls["<|im_end|>"]
    assert renderer.parse((65, end)).ended and not renderer.parse((65,)).ended
    assert renderer.parse((end, 65)).message.text.startswith("<|im_end|>")


def test_a_stop_text_ends_the_words_and_is_none_of_them() -> None:
    renderer = family("chatml")
    reader = renderer.reader(stop=("Observation:",))
    shown = [reader.feed((number,)) for number in ids_of(renderer, "Act now\nObservation: sunny")]
    parsed, rest = reader.finish()
    assert parsed.message.text == "Act now\n"
    assert "".join(delta.text for delta in [*shown, rest] if delta is not None) == "Act now\n"


MARKS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "[TOOL_CALLS]", "```tool_code", "```", "<|python_tag|>"]
OTHERS = ["{", "\n", " ", "x", "get_weather(a=1)", "<tool", "STOP", "🌲", "the weather", "<|im_end|>"]
PIECES = [*MARKS, *OTHERS, '{"name": "get_weather", "arguments": {"a": "é"}}']


@pytest.mark.parametrize("name", sorted(FAMILIES))
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_a_stream_says_what_the_whole_says_and_shows_no_mark(name: str, data: st.DataObject) -> None:
    renderer = family(name)
    text = "".join(data.draw(st.lists(st.sampled_from(PIECES), max_size=8)))
    noise = st.lists(st.integers(0, renderer.vocabulary.size - 1), max_size=4)
    ids = (*ids_of(renderer, text), *data.draw(noise))
    tools, stop = data.draw(st.sampled_from([(), TOOLS])), data.draw(st.sampled_from([(), ("STOP",)]))
    whole = renderer.reader(tools, stop=stop)
    first = whole.feed(ids)
    message, last = whole.finish()
    reader = renderer.reader(tools, stop=stop)
    deltas: list[Delta | None] = []
    place = 0
    while place < len(ids):
        step = data.draw(st.integers(1, 3))
        deltas.append(reader.feed(ids[place : place + step]))
        place += step
    streamed, rest = reader.finish()
    assert streamed == message
    for shown in ([first, last], [*deltas, rest]):
        assert "".join(delta.text for delta in shown if delta is not None) == message.message.text
        assert "".join(delta.thinking for delta in shown if delta is not None) == message.message.thinking
    if stop:
        assert "STOP" not in message.message.text and "STOP" not in message.message.thinking


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_pieces_never_hold_half_a_character(text: str) -> None:
    renderer = family("chatml")
    reader = renderer.reader()
    shown = [
        reader.feed((number,)) for number in ids_of(renderer, text)
    ]  # letters it was not trained on: one id a byte
    parsed, _ = reader.finish()
    assert parsed.message.text == text
    if "\ufffd" not in text:
        assert all("\ufffd" not in delta.text for delta in shown if delta is not None)


def test_bytes_of_the_scripted_model_are_read_and_extended() -> None:
    renderer = open_renderer("scripted")
    prompt = renderer.render((user("né"),))
    parsed = renderer.parse((*"né 🌲".encode(), tokens.END))
    assert parsed.ended and parsed.message.text == "né 🌲"
    found = renderer.extend((*prompt, *b"ja", tokens.END), (user("né"), assistant("ja")), (user("x"),))
    assert found.ids == (tokens.ROLES["user"], *b"x", tokens.END, tokens.ROLES["assistant"])  # type: ignore[union-attr]
