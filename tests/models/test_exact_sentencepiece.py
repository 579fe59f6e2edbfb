"""Tokenizers that put a space before words: before the first, or before whatever stands behind a mark."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import jinja2
import pytest
from exact_families import TEMPLATES, llama2_folder, plain_family, write_folder
from exact_talk import NASTY, words
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from silva.models.exact import Extension, open_renderer
from silva.models.exact.templated import TemplateRenderer
from silva.tree import Message, assistant, system, user

SCHEMES = ("first", "always", "prepend")
schemes = pytest.mark.parametrize("scheme", SCHEMES)
calm = st.text(st.sampled_from("the weather in Paris\n1é☃ "), min_size=1, max_size=20).filter(str.strip)


def opened(folder: Path) -> TemplateRenderer:
    renderer = open_renderer(folder)
    assert isinstance(renderer, TemplateRenderer)
    return renderer


def told(*messages: Message) -> str:
    """What jinja alone makes of a conversation."""
    template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(
        (TEMPLATES / "llama2.jinja").read_text(encoding="utf-8")
    )
    spoken = [{"role": message.role, "content": message.text} for message in messages]
    return template.render(messages=spoken, bos_token="<s>", eos_token="</s>")


@schemes
@settings(max_examples=50, deadline=None)
@given(first=calm, reply=calm, second=calm, ended=st.booleans())
def test_ids_are_those_the_tokenizer_makes_of_the_whole(
    scheme: str, first: str, reply: str, second: str, ended: bool
) -> None:
    folder = llama2_folder(scheme)
    renderer, raw = opened(folder), Tokenizer.from_file(str(folder / "tokenizer.json"))
    opening, walk = (system("Be brief."), user(first)), (system("Be brief."), user(first), assistant(reply))
    prompt = renderer.render(opening)
    assert list(prompt) == raw.encode(told(*opening), add_special_tokens=False).ids
    sampled = tuple(raw.encode(reply.strip(), add_special_tokens=False).ids)
    end = renderer.vocabulary.controls["</s>"]
    seen = (*prompt, *sampled, *((end,) if ended else ()))
    found = renderer.extend(seen, walk, (user(second),))
    assert isinstance(found, Extension)
    tail = raw.encode("</s>" + told(user(second)), add_special_tokens=False).ids
    assert list(found.ids) == (tail[1:] if ended else tail)


@schemes
@settings(max_examples=50, deadline=None)
@given(said=st.tuples(words, words))
def test_marks_in_words_stay_words_and_no_letter_is_lost(scheme: str, said: tuple[str, str]) -> None:
    renderer = opened(llama2_folder(scheme))
    marks = "</s><s>" + "".join(NASTY[:3])
    first, second = (f"a{text}{marks}b".encode("utf-8", "ignore").decode() for text in said)
    walk, calm_walk = ((user(one), assistant("fine"), user(two)) for one, two in ((first, second), ("a", "b")))
    meant, harmless = renderer.render(walk), renderer.render(calm_walk)
    assert controls(renderer, meant) == controls(renderer, harmless) == {"<s>": 2, "</s>": 1}
    # a space of the tokenizer's own may stand behind a mark, and ▁ is a space to it; else it is the template's text
    assert unspaced(renderer.text(meant)) == unspaced(told(*walk))


def unspaced(text: str) -> str:
    return text.replace(" ", "").replace("▁", "")


def controls(renderer: TemplateRenderer, ids: tuple[int, ...]) -> dict[str, int]:
    return dict(Counter(mark for number in ids if (mark := renderer.vocabulary.text_of(number)) is not None))


@schemes
@pytest.mark.parametrize("said", ["x", "x</s>y<eos>", "<eos>"])
def test_no_space_comes_between_what_was_seen_and_what_is_added(scheme: str, said: str) -> None:
    renderer = plain_family(scheme)
    walk = (user("Hi"), assistant("the wea"))
    seen = (*renderer.render(walk[:1]), *renderer.vocabulary.encode(" the wea", first=False))
    found = renderer.extend(seen, walk, (user(said),))
    assert isinstance(found, Extension)
    assert renderer.text(found.ids) == f"\nuser: {said}\nassistant:"
    assert renderer.text((*seen, *found.ids)).endswith(f" the wea\nuser: {said}\nassistant:")


@schemes
def test_a_mark_the_model_knows_as_a_word_is_cut_up_without_spaces(scheme: str, tmp_path: Path) -> None:
    folder = write_folder(
        tmp_path / "words", (TEMPLATES / "plain.jinja").read_text(), ("<eos>",), (), "<eos>", "", scheme
    )
    data = json.loads((folder / "tokenizer.json").read_text())
    word = next(text for text in ("weather", "the", "ny", "to") if text in data["model"]["vocab"])
    number = data["model"]["vocab"][word]
    data["added_tokens"].append({**data["added_tokens"][-1], "id": number, "content": word})
    (folder / "tokenizer.json").write_text(json.dumps(data))
    renderer = opened(folder)
    ids = renderer.render((user(f"a{word}\nb"),))
    assert number not in ids and f"user: a{word}\nb\nassistant:" in renderer.text(ids)


@schemes
def test_bytes_that_are_added_tokens_are_bytes_and_no_marks(scheme: str) -> None:
    renderer = opened(llama2_folder(scheme, bytes_added=True))
    ids = renderer.render((user("☃ x </s> <0x41>"),))
    assert controls(renderer, ids) == {"<s>": 1}
    assert "☃ x </s> <0x41> [/INST]" in renderer.text(ids)
    assert renderer.parse(renderer.vocabulary.encode("☃", first=False)).message.text.strip() == "☃"
