"""What is said and sampled in the tests of exact tokens: nasty words, any ids at all, results of calls, pictures."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st

from silva.models.exact import Continuation, prompt_for
from silva.models.exact.templated import TemplateRenderer
from silva.tree import ImagePart, Message, TextPart, Tool, tool_result, user

WEATHER = Tool(
    name="get_weather",
    description="Of a <city>.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)
NASTY = (
    "<|im_end|>", "<|im_start|>system\n", "</s>", "[/INST]", "[INST]", "<end_of_turn>", "<|eot_id|>", "</think>",
    "<think>", "<tool_call>", "</tool_response>", "<｜end▁of▁sentence｜>", "<|im_", "end|>", "<", ">", "|>", "s",
    "<|image_pad|>", "<start_of_image>", "<image>", "user", "", " ", "\n", "\n\n  x", "  indented\n", "trailing \n",
    "日本語 ñ 🌲", "\u200b\ufffd", "{{ 7*7 }}", "\U000f0000", "\U000ffffe\U000ffffd",
)  # fmt: skip
words = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.lists(st.sampled_from(NASTY), max_size=4).map("".join),
)

beside = st.one_of(words, st.sampled_from(["<|image_pad|>", "<start_of_image>", "<|image|>", "<image>"]))
"""Words beside a picture: often what a picture becomes."""


@st.composite
def replies(draw: st.DrawFn, renderer: TemplateRenderer) -> tuple[int, ...]:
    """Any ids at all, with or without an end; often the letters of a word one by one, which encode otherwise."""
    size = renderer.vocabulary.size
    letters = [number for letter in "the weather" for number in renderer.vocabulary.encode(letter, first=False)]
    ids = draw(st.one_of(st.lists(st.integers(0, size - 1), max_size=12), st.just(letters)))
    end = draw(st.one_of(st.just(()), st.sampled_from(sorted(renderer.stop_ids)).map(lambda number: (number,))))
    return (*ids, *end) or (0,)


@st.composite
def said(draw: st.DrawFn, images: bool) -> Message:
    """What a user says: words, and where there is a place for them up to three pictures anywhere among the words."""
    parts = [TextPart(text=text) for text in draw(st.lists(beside, min_size=1, max_size=3 if images else 1))]
    mixed: list[TextPart | ImagePart] = list(parts)
    for letter in draw(st.lists(st.sampled_from("abc"), max_size=3 if images else 0)):
        mixed.insert(draw(st.integers(0, len(mixed))), ImagePart(hash=letter * 64))
    return Message(role="user", parts=tuple(mixed))


@st.composite
def turns(draw: st.DrawFn, reply: Message, images: bool = False) -> list[Message]:
    """What follows a reply: results of its calls, else words of the user."""
    if reply.tool_calls:
        return [tool_result(made.id, draw(words), made.name) for made in reply.tool_calls]
    return [draw(said(images))] if images else [user(draw(words))]


def pictures(messages: tuple[Message, ...]) -> int:
    """How many pictures a conversation has."""
    return sum(isinstance(part, ImagePart) for message in messages for part in message.parts)


def marks_of_a_picture(renderer: TemplateRenderer) -> Counter[int]:
    """The control tokens one picture becomes; none where the template has no place for pictures."""
    if not renderer.takes_images:
        return Counter()
    with_one = Counter(renderer.render((user("qx", ImagePart(hash="0" * 64)),)))
    more = with_one - Counter(renderer.render((user("qx"),)))
    return Counter({number: times for number, times in more.items() if renderer.vocabulary.text_of(number)})


def ids_stay(renderer: TemplateRenderer, opening: tuple[Message, ...], data: st.DataObject, *, calls: int) -> None:
    """A conversation of whatever is said and sampled: where it does not begin anew, the ids of before stay, only what
    is new is tokenised, and each picture has its place once. What is added is told by `exact_oracle`.

    Args:
        renderer: of the model.
        opening: how it begins.
        data: draws the rest.
        calls: how many calls of one reply the template takes; the conversation ends before a reply with more.
    """
    tools = data.draw(st.sampled_from([(), (WEATHER,)])) if renderer.syntax.calls else ()
    messages, known, covered = opening, None, 0
    marks = marks_of_a_picture(renderer)
    for _ in range(data.draw(st.integers(1, 4))):
        before = renderer.encoded
        prompt = prompt_for(renderer, messages, tools, known)
        assert renderer.encoded - before == len(prompt.ids) - prompt.kept or prompt.kept
        if known is not None and not prompt.restart:
            assert prompt.ids[: len(known.ids)] == known.ids  # not one id is other than it was
            assert renderer.encoded - before <= len(prompt.ids) - len(known.ids) + 1  # the sampled end mark, at most
        new, shown = Counter(prompt.ids[prompt.kept :]), pictures(messages[covered if prompt.kept else 0 :])
        assert {number: new[number] for number in marks} == {number: marks[number] * shown for number in marks}
        sampled = data.draw(replies(renderer))
        reply = renderer.parse(sampled, tools, name=str(len(prompt.ids))).message
        if len(reply.tool_calls) > calls:
            return
        messages = (*messages, reply)
        known, covered = Continuation(ids=prompt.ids + sampled, messages=messages, tools=tools), len(messages)
        messages = (*messages, *data.draw(turns(reply, renderer.takes_images)))
