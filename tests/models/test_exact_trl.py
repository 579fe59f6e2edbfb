"""Exact ids over the chat templates of real models, as trl ships them. Slow: needs trl (skipped where missing)."""

from __future__ import annotations

from typing import Any

import pytest
from exact_talk import WEATHER, ids_stay, said, words
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trl_templates import model_folder, names, trl_renderer

from silva.models.exact import (
    HISTORY_REWRITTEN,
    THINKING_DROPPED,
    Continuation,
    Extension,
    RenderError,
    open_renderer,
    prompt_for,
)
from silva.models.exact.templated import TemplateRenderer
from silva.tree import Message, ThinkingPart, Tool, assistant, call, system, tool_result, user

NAMES = names()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not NAMES, reason="trl is not installed: pip install 'silva[trl]'")]
templates = pytest.mark.parametrize("name", NAMES)

# What becomes of the prompts after the first, one letter each, in four conversations: words; a call and its result;
# words after thinking; a call, its result and an answer, each after thinking. e: the ids of before and new ones.
# t: restarts, the template leaves thinking out, or an empty place for it. h: restarts, it writes history otherwise.
# r: refuses tools, for it is not known how a reply of this family writes a call.
EXACT = "ee ee e ee"
ENDS = {"t": THINKING_DROPPED, "h": HISTORY_REWRITTEN}
OTHERWISE = {
    # earlier thinking is left out
    "deepseek_r1_distill": "ee ee t tt",
    "deepseekv3": "ee ee t tt",
    "deepseekv3_training": "ee ee t tt",
    # earlier thinking is left out when the user speaks, and stays in a loop of tools
    **dict.fromkeys(["glm4moe", "glm4moe_training"], "ee ee t et"),
    **{name: "ee ee t et" for name in NAMES if name.startswith("nemotron_3")},
    # the same, and the last reply has an empty block of thinking that is not written any more later
    "qwen3": "tt tt t et",
    **dict.fromkeys(["qwen3_5_nothink", "qwen3_5_think", "qwen3_6"], "tt et t et"),
    # no words stand beside a call, so what was thought before one is left out
    **dict.fromkeys(["llama3_1", "llama3_2"], "ee ee e te"),
    # calls in a form of their own, which no reader here knows
    **dict.fromkeys(["gemma4_v2", "lfm2", "lfm2_training", "lfm2_v2", "lfm2_v2_training"], "ee r e r"),
    **dict.fromkeys(["gemma4", "gemma4_v3", "gemma4_v4", "gemma4_v5"], "ee r t r"),
    **dict.fromkeys(["diffusion_gemma", "diffusion_gemma_training"], "ee r t r"),
    **dict.fromkeys(["lfm2_2_5", "lfm2_2_5_v2", "lfm2_2_5_vl"], "ee r t r"),
    **dict.fromkeys(["muse_glimmer", "muse_glimmer_training"], "ee r e r"),
    # and the mark that ends the last reply is another than the one that ends earlier ones
    **dict.fromkeys(["gptoss", "gptoss_training"], "hh r t r"),
}
# What a model of these writes itself to say whom it speaks to: its ids are kept, and it stays among the words.
HEADS = {
    **dict.fromkeys(["gptoss", "gptoss_training"], "<|channel|>final<|message|>"),
    **dict.fromkeys(["muse_glimmer", "muse_glimmer_training"], "to=user<|message|>"),
}
# Refuse a system message, in the template's own words.
NO_SYSTEM = ("gemma", "gemma_training")
# Take one call a reply: the others become turns of the user in a row, or are refused.
ONE_CALL = ("cohere", "gemma", "llama3", "deepseek")


def thought(message: Message) -> Message:
    """The same reply after thinking."""
    return Message(
        role="assistant", parts=(ThinkingPart(text="let me look"), *message.parts), tool_calls=message.tool_calls
    )


MADE = assistant("", call("get_weather", {"city": "Paris"}, "abcdefgh1"))
RESULT = tool_result("abcdefgh1", "sunny", "get_weather")
HELLO, SUNNY = assistant("Hello there."), assistant("It is sunny.")
CONVERSATIONS: list[tuple[tuple[Tool, ...], list[tuple[Message, Message]]]] = [
    ((), [(HELLO, user("And you?")), (assistant("Yes."), user("Good."))]),
    ((WEATHER,), [(MADE, RESULT), (SUNNY, user("Thanks."))]),
    ((), [(thought(HELLO), user("And you?"))]),
    ((WEATHER,), [(thought(MADE), RESULT), (thought(SUNNY), user("Thanks."))]),
]


def sampled(
    renderer: TemplateRenderer, asked: tuple[int, ...], walk: tuple[Message, ...], tools: tuple[Tool, ...]
) -> tuple[int, ...]:
    """The ids of the last reply of a walk as a model would sample them after `asked`: as its template writes it."""
    whole = renderer.render(walk, tools, generation_prompt=False)
    head, told = renderer.text(asked), renderer.text(whole)
    apart = next((place for place, (one, other) in enumerate(zip(asked, whole, strict=False)) if one != other), None)
    rest = told[len(head) :] if told.startswith(head) else renderer.text(whole[apart:])
    ends = {renderer.vocabulary.text_of(number) or "": number for number in sorted(renderer.stop_ids)}
    places = [(rest.find(mark), mark) for mark in ends if mark in rest]
    place, end = min(places, default=(len(rest), next(iter(ends))))
    rest, unthink = rest[:place], renderer.syntax.unthink
    if not told.startswith(head) and unthink not in rest:  # it is asked to think, and does not show it later
        rest = f"{walk[-1].thinking}\n{unthink}\n\n{rest}"
    return (*renderer.vocabulary.encode(rest, first=False), ends[end])


def outcome(renderer: TemplateRenderer, tools: tuple[Tool, ...], replies: list[tuple[Message, Message]]) -> str:
    """A letter for each prompt after the first. Where nothing restarts, the ids of before are where they were."""
    walk: tuple[Message, ...] = (user("Hi, how is the weather?"),)
    letters = ""
    try:
        prompt = prompt_for(renderer, walk, tools, None)
    except RenderError as refusal:
        assert "writes tool calls is not known: send no tools" in str(refusal)
        return "r"
    for reply, following in replies:
        walk = (*walk, reply)
        seen = prompt.ids + sampled(renderer, prompt.ids, walk, tools)
        known = Continuation(ids=seen, messages=walk, tools=tools)
        walk = (*walk, following)
        prompt = prompt_for(renderer, walk, tools, known)
        if prompt.restart:
            assert prompt.ids == renderer.render(walk, tools)
        else:
            assert prompt.ids[: len(seen)] == seen and following.text in renderer.text(prompt.ids[len(seen) :])
        letters += next((letter for letter, reason in ENDS.items() if reason == prompt.restart), "e")
        assert prompt.restart in ("", *ENDS.values())
    return letters


def test_the_lists_name_templates_that_are_there() -> None:
    assert len(NAMES) >= 36 and set(OTHERWISE) <= set(NAMES) and set(NO_SYSTEM) <= set(NAMES)


@templates
def test_a_conversation_goes_on_from_its_ids_or_says_why_it_does_not(name: str) -> None:
    found = [outcome(trl_renderer(name), tools, replies) for tools, replies in CONVERSATIONS]
    assert " ".join(found) == OTHERWISE.get(name, EXACT)


@templates
def test_with_history_kept_what_is_new_is_added_once_and_nothing_old_is(name: str) -> None:
    renderer = open_renderer(model_folder(name), keep_history=True)
    assert isinstance(renderer, TemplateRenderer)
    for tools, replies in CONVERSATIONS:
        if tools and not renderer.syntax.calls:
            continue
        walk: tuple[Message, ...] = (user("Hi, how is the weather?"),)
        prompt = prompt_for(renderer, walk, tools, None)
        for reply, following in replies:
            walk = (*walk, reply)
            seen = prompt.ids + sampled(renderer, prompt.ids, walk, tools)
            known = Continuation(ids=seen, messages=walk, tools=tools)
            old = [message.text for message in walk if message.text]
            walk = (*walk, following)
            prompt = prompt_for(renderer, walk, tools, known)
            added = renderer.text(prompt.ids[len(seen) :])
            assert prompt.restart == "" and prompt.ids[: len(seen)] == seen
            assert added.count(following.text) == 1 and not any(text in added for text in old), added


@templates
def test_a_system_message_is_taken_or_refused_in_the_templates_words(name: str) -> None:
    renderer = trl_renderer(name)
    if name in NO_SYSTEM:
        with pytest.raises(RenderError, match="System role not supported"):
            renderer.render((system("Be brief."), user("Hi")))
    else:
        assert "Be brief." in renderer.text(renderer.render((system("Be brief."), user("Hi"))))


@templates
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_the_ids_of_before_stay_and_only_what_is_new_is_tokenised_whatever_is_said_and_sampled(
    name: str, data: st.DataObject
) -> None:
    renderer = trl_renderer(name)
    opening = (data.draw(said(renderer.takes_images)),)
    if name not in NO_SYSTEM and data.draw(st.booleans()):
        opening = (system(data.draw(words)), *opening)
    ids_stay(renderer, opening, data, calls=1 if name.startswith(ONE_CALL) else 99)


def spoken(message: Message, parts_only: bool) -> dict[str, Any]:
    """A message as transformers' users write it."""
    content: Any = [{"type": "text", "text": message.text}] if parts_only else message.text
    told: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        called = [{"name": made.name, "arguments": made.parsed()} for made in message.tool_calls]
        told["tool_calls"] = [{"type": "function", "function": function} for function in called]
    if message.tool_call_id is not None:
        told |= {"tool_call_id": message.tool_call_id, "name": message.name}
    return told


@templates
def test_a_prompt_is_what_transformers_makes_of_it(name: str) -> None:
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(model_folder(name))
    renderer = trl_renderer(name)
    asked, answered = (user("Hi, how is the weather?"),), (user("Hi"), HELLO, user("And you?"))
    walks: list[tuple[tuple[Message, ...], tuple[Tool, ...]]] = [(asked, ()), (answered, ())]
    if name not in NO_SYSTEM:
        walks.append(((system("Be brief."), *asked), ()))
    if renderer.template.knows_tools and renderer.syntax.calls:
        walks += [(asked, (WEATHER,)), ((*asked, MADE, RESULT), (WEATHER,))]
    for walk, tools in walks:
        offered = [{"type": "function", "function": {"name": tool.name, "description": tool.description,
                                                     "parameters": tool.parameters}} for tool in tools]  # fmt: skip
        theirs = tokenizer.apply_chat_template(
            [spoken(message, renderer.template.parts_only) for message in walk],
            tools=offered or None,
            add_generation_prompt=True,
            return_dict=False,
        )
        assert list(renderer.render(walk, tools)) == theirs


def test_what_trl_calls_prefix_preserving_does_not_restart() -> None:
    from transformers import PreTrainedTokenizerFast
    from trl.chat_template_utils import is_chat_template_prefix_preserving

    preserving: list[str] = []
    for name in NAMES:
        renderer = trl_renderer(name)
        if not renderer.template.knows_tools or not renderer.syntax.calls:
            continue
        if is_chat_template_prefix_preserving(PreTrainedTokenizerFast.from_pretrained(model_folder(name))):
            preserving.append(name)
            walk = (user("dummy"), assistant("", call("dummy", {}, "abcdefgh1")))
            asked, seen = renderer.render(walk[:1]), renderer.render(walk, generation_prompt=False)
            ends = [place for place, number in enumerate(seen) if number in renderer.stop_ids and place >= len(asked)]
            seen = seen[: ends[0] + 1] if ends else seen
            new = (tool_result("abcdefgh1", "dummy", "dummy"),)
            found = renderer.extend(seen, walk, new)
            assert isinstance(found, Extension), name
            assert seen + found.ids == renderer.render((*walk, *new)), name
    assert len(preserving) >= 10


@templates
def test_a_reply_is_read_back_as_it_was_meant(name: str) -> None:
    renderer, opening = trl_renderer(name), (user("Weather?"),)
    asked = renderer.render(opening)
    reply = renderer.parse(sampled(renderer, asked, (*opening, HELLO), ())).message
    assert reply.text.strip() == HEADS.get(name, "") + HELLO.text
    if not renderer.syntax.calls:
        return
    asked = renderer.render(opening, (WEATHER,))
    reply = renderer.parse(sampled(renderer, asked, (*opening, MADE), (WEATHER,)), (WEATHER,)).message
    assert [(made.name, made.parsed()) for made in reply.tool_calls] == [("get_weather", {"city": "Paris"})]
    assert reply.text.strip() == ""
