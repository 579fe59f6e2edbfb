"""What was seen stays as it was seen: extending a conversation, over families of templates."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from exact_families import FAMILIES, family, family_folder, plain_family, write_folder
from exact_talk import WEATHER, ids_stay, said, turns, words
from hypothesis import given, settings
from hypothesis import strategies as st

from silva.models.exact import (
    HISTORY_REWRITTEN,
    THINKING_DROPPED,
    Continuation,
    Extension,
    RenderError,
    Restart,
    open_renderer,
    prompt_for,
)
from silva.models.exact.shield import Shield
from silva.tree import (
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    assistant,
    call,
    system,
    tool_result,
    user,
)

chatting = pytest.mark.parametrize("name", sorted(FAMILIES))


@chatting
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_ids_of_before_stay_and_only_what_is_new_is_tokenised_whatever_is_said_and_sampled(
    name: str, data: st.DataObject
) -> None:
    renderer = family(name)
    opening = (system(data.draw(words)), data.draw(said(renderer.takes_images)))
    ids_stay(renderer, opening, data, calls=1 if name == "llama3" else 99)


@chatting
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_where_the_reply_is_the_templates_own_extending_says_what_rendering_says(
    name: str, data: st.DataObject
) -> None:
    renderer = family(name)
    walk: tuple[Message, ...] = (user(data.draw(words)),)
    calls = name not in ("gemma",) and data.draw(st.booleans())
    made = (call("get_weather", {"city": data.draw(words)}, "abcdefgh1"),) if calls else ()
    said = "" if made else data.draw(words)
    walk = (*walk, assistant(said, *made))
    tools = (WEATHER,) if made else ()
    new = data.draw(turns(walk[-1]))
    asked, whole = renderer.render(walk[:-1], tools), renderer.render((*walk, *new), tools)
    told = renderer.render(walk, tools, generation_prompt=False)
    head, text = renderer.text(asked), renderer.text(told)
    if not text.startswith(head):  # the template begins a given reply otherwise than one that is asked for
        assert name in ("deepseek", "mistral")
        return
    if told[: len(asked)] == asked:
        end = max((place + 1 for place, number in enumerate(told) if number in renderer.stop_ids), default=len(told))
        seen = told[:end]
    else:  # words melt with the head of the reply when they are given; sampled, they never do
        ender = max(text.rfind(renderer.vocabulary.text_of(number) or "") for number in renderer.stop_ids)
        sampled = Shield(renderer.vocabulary.marks, [said]).hide(text[len(head) : ender])
        ids = renderer.vocabulary.encode(
            sampled, first=False, breaker=Shield(renderer.vocabulary.marks, [said]).breaker
        )
        seen = asked + ids + (min(renderer.stop_ids),)
    found = renderer.extend(seen, walk, new, tools)
    if isinstance(found, Restart):
        assert not renderer.text(whole).startswith(text.rstrip())
    elif told[: len(asked)] == asked:
        assert seen + found.ids == whole
    else:
        assert renderer.text(found.ids) == renderer.text(whole)[len(text.rstrip()) :]


@chatting
def test_a_sampled_reply_is_kept_as_sampled_however_the_client_writes_it(name: str) -> None:
    if name == "gemma":
        return
    renderer = family(name)
    forms = {
        "llama3": '{"name": "get_weather", "parameters": {"city":"Paris"}}',
        "mistral": '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city":"Paris"}}]',
        "deepseek": "</think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
        '```json\n{"city":"Paris"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    }
    tagged = '<tool_call>\n{"name": "get_weather", "arguments": {"city":"Paris"}}\n</tool_call>'
    forms["qwen3"] = f"<think>\nI look.\n</think>\n\n{tagged}"  # the client leaves the thinking out
    written = forms.get(name, tagged)
    sampled = (*renderer.vocabulary.encode(written, first=False), min(renderer.stop_ids))
    reply = renderer.parse(sampled, (WEATHER,)).message
    assert [(made.name, made.arguments) for made in reply.tool_calls] == [("get_weather", '{"city":"Paris"}')]
    asked = (user("Weather?"),)
    prompt = renderer.render(asked, (WEATHER,))
    [made] = reply.tool_calls
    sent_back = ToolCall(id=made.id, name=made.name, arguments='{"city": "Paris"}')
    client = (*asked, assistant("", sent_back), tool_result(made.id, "sunny", "get_weather"))
    known = Continuation(ids=prompt + sampled, messages=(*asked, reply), tools=(WEATHER,))
    following = prompt_for(renderer, client, (WEATHER,), known)
    assert following.restart == ""
    assert following.ids[: len(prompt + sampled)] == prompt + sampled
    assert "sunny" in renderer.text(following.ids[following.kept :])


def test_thinking_is_dropped_when_the_user_speaks_and_kept_in_a_loop_of_tools() -> None:
    renderer = family("qwen3")
    asked = (user("Weather?"),)
    made = call("get_weather", {"city": "Paris"}, "abcdefgh1")
    thinking = Message(role="assistant", parts=(ThinkingPart(text="let me look"),), tool_calls=(made,))
    seen = renderer.render((*asked, thinking), (WEATHER,), generation_prompt=False)[:-1]
    looped = renderer.extend(seen, (*asked, thinking), (tool_result("abcdefgh1", "sunny"),), (WEATHER,))
    assert isinstance(looped, Extension)
    answer = Message(role="assistant", parts=(ThinkingPart(text="sunny then"), TextPart(text="It is sunny.")))
    walk = (*asked, thinking, tool_result("abcdefgh1", "sunny"), answer)
    seen = renderer.render(walk, (WEATHER,), generation_prompt=False)[:-1]
    again = renderer.extend(seen, walk, (user("And tomorrow?"),), (WEATHER,))
    assert again == Restart(reason=THINKING_DROPPED)


def test_a_template_that_shows_no_earlier_thinking_restarts_and_names_it() -> None:
    renderer = family("deepseek")
    prompt = renderer.render((user("Weather?"),))
    sampled = (*renderer.vocabulary.encode("I look.\n</think>\n\nSunny.", first=False), min(renderer.stop_ids))
    reply = renderer.parse(sampled).message
    assert (reply.thinking, reply.text) == ("I look.", "Sunny.")
    found = renderer.extend(prompt + sampled, (user("Weather?"), reply), (user("Sure?"),))
    assert found == Restart(reason=THINKING_DROPPED)


def test_history_can_be_kept_as_it_was_seen_instead() -> None:
    kept = open_renderer(family_folder("qwen3"), options={"enable_thinking": False}, keep_history=True)
    strict = open_renderer(family_folder("qwen3"), options={"enable_thinking": False})
    prompt = kept.render((user("Weather?"),))
    sampled = (*kept.render((user("Sunny."),))[-3:], min(kept.stop_ids))
    walk, new = (user("Weather?"), kept.parse(sampled).message), (user("Sure?"),)
    assert strict.extend(prompt + sampled, walk, new) == Restart(reason=THINKING_DROPPED)
    found = kept.extend(prompt + sampled, walk, new)
    assert isinstance(found, Extension)
    head = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    assert kept.text(found.ids) == f"\n<|im_start|>user\nSure?<|im_end|>\n{head}"


def test_tools_that_move_in_the_template_restart() -> None:
    renderer = family("mistral")
    walk = (user("Hi"), assistant("Hello."))
    seen = renderer.render(walk, (WEATHER,), generation_prompt=False)
    assert renderer.extend(seen, walk, (user("Weather?"),), (WEATHER,)) == Restart(reason=HISTORY_REWRITTEN)
    assert isinstance(renderer.extend(seen, walk, (user("Weather?"),)), Extension)


def test_another_end_than_the_templates_stands_in_its_place() -> None:
    renderer = family("llama3")
    walk = (user("Hi"), assistant("Hello"))
    prompt = renderer.render(walk[:1])
    eom = renderer.vocabulary.controls["<|eom_id|>"]
    found = renderer.extend((*prompt, 65, eom), walk, (user("x"),))
    assert isinstance(found, Extension)
    assert renderer.text(found.ids).startswith("<|start_header_id|>user")


def test_thinking_cut_short_is_closed_before_the_turn_is() -> None:
    renderer = family("qwen3")
    made = (user("Hi"),)
    sampled = renderer.vocabulary.encode("<think>\nso we", first=False)
    reply = renderer.parse(sampled).message
    assert (reply.thinking, reply.text) == ("so we", "")
    prompt = renderer.render(made)
    found = renderer.extend(prompt + sampled, (*made, reply), (tool_result("abcdefgh1", "x"),))
    assert isinstance(found, Extension)
    assert renderer.text(found.ids).startswith("</think>\n\n<|im_end|>\n<|im_start|>user\n<tool_response>")


def test_what_follows_the_end_mark_is_added_once() -> None:
    renderer = family("chatml")
    walk = (user("Hi"), assistant("Hello \n"))
    told = renderer.render(walk, generation_prompt=False)
    assert renderer.text(told).endswith("Hello \n<|im_end|>\n")
    for seen in (told[:-1], told[:-2]):  # the end mark sampled, and not
        found = renderer.extend(seen, walk, (user("x"),))
        assert isinstance(found, Extension)
        assert seen + found.ids == renderer.render((*walk, user("x")))


@pytest.mark.parametrize("sentencepiece", ["", "first", "always", "prepend"])
def test_words_that_would_melt_together_over_a_border_do_not(sentencepiece: str) -> None:
    renderer = plain_family(sentencepiece)
    walk = (user("Hi"), assistant("the wea"))
    prompt = renderer.render(walk[:1])
    seen = prompt + renderer.vocabulary.encode(" the wea", first=False)
    found = renderer.extend(seen, walk, (user("ther"),))
    assert isinstance(found, Extension)
    whole = seen + found.ids
    assert renderer.text(whole).strip() == renderer.text(renderer.render((*walk, user("ther")))).strip()
    for longer, shorter in pairwise([whole, seen, prompt]):
        assert longer[: len(shorter)] == shorter


def test_the_date_of_a_conversation_stays() -> None:
    renderer = open_renderer(family_folder("llama3"), today=datetime(2031, 5, 4, tzinfo=UTC))
    assert "Today Date: 04 May 2031" in renderer.text(renderer.render((user("Hi"),)))


@pytest.mark.parametrize(("name", "mark"), [("chatml", "<|image_pad|>"), ("gemma", "<start_of_image>")])
def test_images_are_placeholders_and_extending_goes_on_from_them(name: str, mark: str) -> None:
    renderer = family(name)
    picture = Message(role="user", parts=(TextPart(text=f"Look {mark}: "), ImagePart(hash="ab" * 32)))
    ids = renderer.render((picture,))
    assert ids.count(renderer.vocabulary.controls[mark]) == 1  # the one that was written is words
    walk = (picture, assistant("A tree."))
    told = renderer.render(walk, generation_prompt=False)
    end = max(place + 1 for place, number in enumerate(told) if number in renderer.stop_ids)
    found = renderer.extend(told[:end], walk, (picture,))
    assert isinstance(found, Extension)
    assert found.ids.count(renderer.vocabulary.controls[mark]) == 1


def test_a_template_without_a_place_for_images_refuses_them() -> None:
    with pytest.raises(RenderError, match="qwen3 has no place for images"):
        family("qwen3").render((user("Look", ImagePart(hash="ab" * 32)),))


def test_the_templates_own_refusal_is_one_line() -> None:
    with pytest.raises(RenderError, match="gemma refuses the conversation: Roles must take turns"):
        family("gemma").render((user("a"), user("b")))
    with pytest.raises(RenderError, match="half a surrogate pair"):
        family("chatml").render((user("\ud800"),))


def test_ids_of_calls_are_made_to_fit_a_template_that_wants_nine_letters() -> None:
    renderer = family("mistral")
    made = call("get_weather", {"city": "Paris"}, "call_0")
    text = renderer.text(renderer.render((user("a"), assistant("", made), tool_result("call_0", "b")), (WEATHER,)))
    first, second = text.split('"id": "')[1][:9], text.split('"call_id": "')[1][:9]
    assert first == second and first.isalnum()


def test_a_template_without_tools_has_them_described_and_the_calls_read() -> None:
    renderer = family("gemma")
    text = renderer.text(renderer.render((user("Weather?"),), (WEATHER,)))
    assert "<tools>" in text and "get_weather" in text
    sampled = renderer.vocabulary.encode('```tool_code\nprint(get_weather(city="Paris"))\n```', first=False)
    [made] = renderer.parse(sampled, (WEATHER,)).message.tool_calls
    assert (made.name, made.parsed()) == ("get_weather", {"city": "Paris"})


def test_a_family_whose_calls_are_not_known_refuses_tools_by_name(tmp_path) -> None:
    template = "{% for m in messages %}<a>{{ m.content }}{% endfor %}{% if tools %}{{ tools }}{% endif %}"
    renderer = open_renderer(write_folder(tmp_path / "strange", template, ("<a>",)))
    assert renderer.render((user("x"),))
    with pytest.raises(RenderError, match="how strange writes tool calls is not known"):
        renderer.render((user("x"),), (WEATHER,))


def test_a_template_that_asks_whether_there_is_a_key_of_calls_finds_none_where_they_are_words(tmp_path) -> None:
    calls = (
        "{% if 'tool_calls' in m %}{% for c in m.tool_calls %}{{ c }}{% endfor %}{% else %}{{ m.content }}{% endif %}"
    )
    template = "{% for m in messages %}<a>" + calls + "{% endfor %}"
    renderer = open_renderer(write_folder(tmp_path / "asks", template, ("<a>",)))
    walk = (user("x"), assistant("", call("get_weather", {"city": "Paris"}, "abcdefgh1")))
    assert '<a><tool_call>\n{"name": "get_weather"' in renderer.text(renderer.render(walk))
