"""What is added to the ids a model saw is what its template would have written there: word for word, told by jinja."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache

import pytest
from exact_families import FAMILIES, family_folder, write_folder
from exact_oracle import ENDS, TODAY, Oracle
from exact_talk import WEATHER, replies, words
from hypothesis import given, settings
from hypothesis import strategies as st

from silva.models.exact import Continuation, Extension, Restart, open_renderer, prompt_for
from silva.models.exact.templated import TemplateRenderer
from silva.tree import (
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    Tool,
    assistant,
    call,
    system,
    tool_result,
    user,
)

chatting = pytest.mark.parametrize("name", sorted(FAMILIES))
MADE = assistant("", call("get_weather", {"city": "Paris"}, "abcdefgh1"))


@cache
def renderer_of(name: str, keep_history: bool = False) -> TemplateRenderer:
    renderer = open_renderer(family_folder(name), today=TODAY, keep_history=keep_history)
    assert isinstance(renderer, TemplateRenderer)
    return renderer


oracle_of = cache(Oracle)


def thought(reply: Message, words: str = "let me look") -> Message:
    return Message(role="assistant", parts=(ThinkingPart(text=words), *reply.parts), tool_calls=reply.tool_calls)


def harmless(message: Message) -> Message:
    """The same with words nobody minds."""
    parts = tuple(TextPart(text="w") if isinstance(part, TextPart) else part for part in message.parts)
    return Message(role=message.role, parts=parts, tool_call_id=message.tool_call_id, name=message.name)


def controls(renderer: TemplateRenderer, ids: tuple[int, ...]) -> Counter[str]:
    return Counter(mark for number in ids if (mark := renderer.vocabulary.text_of(number)) is not None)


@chatting
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_is_added_is_what_the_template_writes_whatever_is_said_and_sampled(name: str, data: st.DataObject) -> None:
    renderer, oracle = renderer_of(name), oracle_of(name)
    tools = (WEATHER,) if name != "gemma" and data.draw(st.booleans()) else ()
    asked = user(f"{data.draw(words)}№0.")
    messages: tuple[Message, ...] = (system(data.draw(words)), asked) if data.draw(st.booleans()) else (asked,)
    known: Continuation | None = None
    for turn in range(1, data.draw(st.integers(2, 5))):
        prompt = prompt_for(renderer, messages, tools, known)
        if known is None:
            assert (prompt.restart, prompt.kept) == ("", 0)
            assert renderer.text(prompt.ids) == oracle.text(messages, tools)
        else:
            walk, new = known.messages, messages[known.count :]
            assert prompt.restart == oracle.reason(walk, new, tools)
            if prompt.restart:
                assert prompt.kept == 0 and renderer.text(prompt.ids) == oracle.text(messages, tools)
            else:
                assert prompt.ids[: len(known.ids)] == known.ids and prompt.kept == len(known.ids)
                added = prompt.ids[len(known.ids) :]
                tail, plain = oracle.tail(walk, new, tools), oracle.tail(walk, [*map(harmless, new)], tools)
                assert tail is not None and plain is not None
                if known.ids[-1] not in renderer.stop_ids:
                    tail, plain = ENDS[name] + tail, ENDS[name] + plain
                    if name == "deepseek" and not walk[-1].text:  # it thought, of nothing yet
                        tail, plain = "</think>\n\n" + tail, "</think>\n\n" + plain
                assert renderer.text(added) == tail
                assert controls(renderer, added) == oracle.marks(plain)
                for number in range(turn):
                    assert renderer.text(added).count(f"№{number}.") == sum(f"№{number}." in m.text for m in new)
        sampled = data.draw(st.one_of(replies(renderer), called(renderer)))
        reply = renderer.parse(sampled, tools, name=str(len(prompt.ids))).message
        if len(reply.tool_calls) > 1 and name == "llama3":
            return
        messages = (*messages, reply)
        known = Continuation(ids=prompt.ids + sampled, messages=messages, tools=tools)
        messages = (*messages, *data.draw(answers(reply, turn, renderer.takes_images)))


CALLED = {
    "llama3": '{"name": "get_weather", "parameters": {"city":"Paris"}}',
    "mistral": '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city":"Paris"}}]',
    "deepseek": "</think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
    '```json\n{"city":"Paris"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "chatml": '<tool_call>\n{"name": "get_weather", "arguments": {"city":"Paris"}}\n</tool_call>',
    "qwen3": "<think>\nI look.\n</think>\n\n"
    '<tool_call>\n{"name": "get_weather", "arguments": {"city":"Paris"}}\n</tool_call>',
    "gemma": "It is sunny.",
}


@st.composite
def called(draw: st.DrawFn, renderer: TemplateRenderer) -> tuple[int, ...]:
    """A reply as the family's models write one: a call, or words, after thinking where it thinks."""
    name = renderer.name
    text = draw(st.sampled_from([CALLED[name], "Sunny.", "hm\n</think>\n\nSunny.", "</think>\n\nSunny."]))
    return (*renderer.vocabulary.encode(text, first=False), sorted(renderer.stop_ids)[-1])


@st.composite
def answers(draw: st.DrawFn, reply: Message, turn: int, images: bool) -> list[Message]:
    """What follows a reply, with the number of its turn in the words."""
    text = f"{draw(words)}№{turn}."
    if reply.tool_calls:
        return [tool_result(made.id, text, made.name) for made in reply.tool_calls]
    picture = [ImagePart(hash="a" * 64)] if images and draw(st.booleans()) else []
    return [user(text, *picture)]


KEPT = [
    ("qwen3", (), [thought(assistant("Sunny.")), assistant("Warm.")]),
    ("qwen3", (WEATHER,), [thought(MADE), thought(assistant("Sunny."))]),
    ("deepseek", (), [thought(assistant("Sunny.")), thought(assistant("Sunny."), "Sunny")]),
    ("deepseek", (WEATHER,), [thought(MADE), thought(MADE), assistant("Sunny.")]),
    ("mistral", (WEATHER,), [MADE, MADE, assistant("Sunny.")]),
    ("llama3", (WEATHER,), [MADE, thought(assistant("Sunny."))]),
]


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize(("name", "tools", "said"), KEPT)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_with_history_kept_each_new_word_is_added_once_and_nothing_old_is(
    name: str, tools: tuple[Tool, ...], said: list[Message], ended: bool, data: st.DataObject
) -> None:
    renderer = renderer_of(name, keep_history=True)
    heard = st.one_of(words, st.sampled_from(["qxzvk", "qxzvk0", "\U000f0000\U000f0001", ENDS[name]]))
    walk: tuple[Message, ...] = (user("Weather in Paris? №0."),)
    seen = renderer.render(walk, tools)
    end = max(renderer.stop_ids)
    for turn, reply in enumerate(said, 1):
        walk = (*walk, reply)
        seen = (*seen, *renderer.vocabulary.encode(f"sampled №{turn}.", first=False), *((end,) if ended else ()))
        new: list[Message] = []
        if reply.tool_calls:
            new.append(tool_result("abcdefgh1", f"{data.draw(heard)}№{turn}a.", "get_weather"))
        if not reply.tool_calls or data.draw(st.booleans()):
            new.append(user(f"{data.draw(heard)}№{turn}b."))
        found = renderer.extend(seen, walk, new, tools)
        assert isinstance(found, Extension)
        text = renderer.text(found.ids)
        for message in new:
            assert text.count(written(name, message)) == text.count(f"№{turn}{message.text[-2]}.") == 1
        assert text.count("№") == sum(message.text.count("№") for message in new)  # nothing of before
        assert controls(renderer, found.ids)[ENDS[name]] == closing(name, new, ended)
        seen, walk = (*seen, *found.ids), (*walk, *new)


def written(name: str, message: Message) -> str:
    """What a message says, as its family writes it."""
    if name == "mistral" and message.role == "tool":
        return json.dumps(message.text, ensure_ascii=False)
    return message.text.strip() if name == "llama3" and message.role == "user" else message.text


def closing(name: str, new: list[Message], ended: bool) -> int:
    """How many end marks are added: one for each message where the family closes all of them, and the reply's."""
    closed = len(new) if name in ("qwen3", "llama3") else 0
    return closed + (not ended)


def test_a_user_who_writes_our_probe_is_heard() -> None:
    renderer = renderer_of("qwen3", keep_history=True)
    walk = (user("Weather?"), thought(assistant("Sunny.")))
    seen = (*renderer.render(walk[:1]), 65, max(renderer.stop_ids))
    found = renderer.extend(seen, walk, (user("what is qxzvk? tell me"),))
    assert isinstance(found, Extension)
    assert renderer.text(found.ids) == "\n<|im_start|>user\nwhat is qxzvk? tell me<|im_end|>\n<|im_start|>assistant\n"


def test_where_no_words_stand_beside_a_call_only_what_is_new_is_added() -> None:
    renderer = renderer_of("mistral", keep_history=True)
    walk = (user("Weather?"), MADE, tool_result("abcdefgh1", "sunny"), MADE)
    seen = (*renderer.render(walk[:1], (WEATHER,)), 65, max(renderer.stop_ids))
    found = renderer.extend(seen, walk, (tool_result("abcdefgh1", "rainy"), user("and?")), (WEATHER,))
    assert isinstance(found, Extension)
    text = renderer.text(found.ids)
    assert text.startswith('[TOOL_RESULTS] {"content": "rainy"') and "sunny" not in text
    assert text.endswith("[INST] and?[/INST]")


@pytest.mark.parametrize("thinking", ["Sunny", "weather", "user", "S"])
def test_a_dropped_thought_is_noticed_though_its_words_stand_elsewhere(thinking: str) -> None:
    renderer = renderer_of("deepseek")
    walk, new = (user("weather?"),), (user("Sure?"),)
    sampled = (*renderer.vocabulary.encode(f"{thinking}\n</think>\n\nSunny.", first=False), min(renderer.stop_ids))
    reply = renderer.parse(sampled).message
    assert (reply.thinking, reply.text) == (thinking, "Sunny.")
    found = renderer.extend(renderer.render(walk) + sampled, (*walk, reply), new)
    assert found == Restart(reason=oracle_of("deepseek").reason((*walk, reply), new))
    assert found == Restart(reason="thinking_dropped")


OPENED = {"qwen3": "<think>\nso we", "deepseek": "so we"}
"""Thinking that was cut: DeepSeek's prompt has opened it."""


@chatting
@pytest.mark.parametrize("ended", [True, False])
def test_a_reply_cut_short_is_closed_and_one_that_ended_is_not_closed_twice(name: str, ended: bool) -> None:
    renderer, oracle = renderer_of(name), oracle_of(name)
    thinking = {"qwen3": "<think>\nhm\n</think>\n\n", "deepseek": "</think>\n\n"}.get(name, "")
    mark = (renderer.vocabulary.controls[ENDS[name]],)
    sampled = renderer.vocabulary.encode(f"{thinking}the weather", first=False) + (mark if ended else ())
    reply = renderer.parse(sampled).message
    assert reply.text == "the weather"
    walk = (user("Hi"), reply)
    new = (tool_result("abcdefgh1", "x"),) if name == "qwen3" else (user("x"),)  # it drops thinking if the user speaks
    found = renderer.extend(renderer.render(walk[:1]) + sampled, walk, new)
    assert isinstance(found, Extension)
    assert renderer.text(found.ids) == ("" if ended else ENDS[name]) + (oracle.tail(walk, new) or "no tail")


@pytest.mark.parametrize("name", sorted(OPENED))
def test_thinking_that_was_cut_is_dropped_or_closed_before_the_user_speaks(name: str) -> None:
    renderer, oracle = renderer_of(name), oracle_of(name)
    sampled = renderer.vocabulary.encode(OPENED[name], first=False)
    reply = renderer.parse(sampled).message
    assert (reply.thinking, reply.text) == ("so we", "")
    walk, new = (user("Hi"), reply), (user("And?"),)
    seen = renderer.render(walk[:1]) + sampled
    known = Continuation(ids=seen, messages=walk)
    prompt = prompt_for(renderer, (*walk, *new), (), known)
    assert prompt.restart == oracle.reason(walk, new) == "thinking_dropped"
    assert renderer.text(prompt.ids) == oracle.text((*walk, *new))
    kept = renderer_of(name, keep_history=True).extend(seen, walk, new)
    assert isinstance(kept, Extension)
    spoke = oracle.text((user("And?"),)).removeprefix("<｜begin▁of▁sentence｜>")
    between = "\n" if name == "qwen3" else ""
    assert renderer.text(kept.ids) == f"</think>\n\n{ENDS[name]}{between}{spoke}"


def test_thinking_that_was_cut_before_its_first_word_is_closed_too() -> None:
    renderer = renderer_of("deepseek")
    sampled = renderer.vocabulary.encode("\n", first=False)
    walk = (user("Hi"), renderer.parse(sampled).message)
    assert not walk[1].thinking
    found = renderer.extend(renderer.render(walk[:1]) + sampled, walk, (user("And?"),))
    assert isinstance(found, Extension)
    assert renderer.text(found.ids) == "</think>\n\n<｜end▁of▁sentence｜><｜User｜>And?<｜Assistant｜><think>\n"


@pytest.mark.parametrize("name", sorted(set(FAMILIES) - {"gemma"}))
def test_a_call_cut_half_way_is_words_and_gone_on_from(name: str) -> None:
    renderer, oracle = renderer_of(name), oracle_of(name)
    cut = {"qwen3": CALLED["chatml"]}.get(name, CALLED[name])
    sampled = renderer.vocabulary.encode(cut[: cut.index("get_w") + 5], first=False)
    reply = renderer.parse(sampled, (WEATHER,)).message
    assert not reply.tool_calls and reply.text.endswith("get_w")
    walk, new = (user("Hi"), reply), (user("You were cut: go on."),)
    seen = renderer.render(walk[:1], (WEATHER,)) + sampled
    prompt = prompt_for(renderer, (*walk, *new), (WEATHER,), Continuation(ids=seen, messages=walk, tools=(WEATHER,)))
    assert prompt.restart == oracle.reason(walk, new, (WEATHER,))
    if not prompt.restart:
        assert prompt.ids[: len(seen)] == seen
        assert renderer.text(prompt.ids[len(seen) :]) == ENDS[name] + (oracle.tail(walk, new, (WEATHER,)) or "no tail")
    assert (prompt.restart == "") == (name in ("chatml", "llama3", "deepseek"))
    kept = renderer_of(name, keep_history=True).extend(seen, walk, new, (WEATHER,))
    assert isinstance(kept, Extension)
    text = renderer.text(kept.ids)
    assert (
        text.startswith(ENDS[name])
        and text.count("You were cut: go on.") == 1
        and "get_w" not in text.split("[INST]")[-1]
    )


def test_where_a_template_does_not_show_the_end_of_a_reply_it_begins_anew_though_history_is_kept(tmp_path) -> None:
    template = (
        "{{ messages | length }}{{ tools or '' }}{% for m in messages %}"
        "<a>{{ 'called' if m.tool_calls else m.content }}<e>{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"
    )
    renderer = open_renderer(write_folder(tmp_path / "counts", template, ("<a>", "<e>"), (), "<e>"), keep_history=True)
    [end] = renderer.stop_ids
    walk = (user("x"), MADE)
    seen = (*renderer.render(walk[:1]), 65, end)
    assert renderer.extend(seen, walk, (user("y"),)) == Restart(reason="history_rewritten")
    walk = (user("x"), assistant("told"))
    found = renderer.extend(seen, walk, (user("y"),))
    assert isinstance(found, Extension) and renderer.text(found.ids) == "<a>y<e><a>"
