"""Turns of the expert with exact ids: what the renderer gives for the whole conversation, and what the agent reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silva.errors import UsageError
from silva.lake import Lake
from silva.models.exact import Renderer, open_renderer
from silva.models.exact.token_table import table_digest, token_table
from silva.models.model import Sampling
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.agent import View
from silva.rollout.config import GuidanceConfig
from silva.rollout.policies import FormError
from silva.rollout.react import parse, render
from silva.rollout.rendering import Form, Rendering
from silva.rollout.vocabulary import written_with
from silva.train.lake_samples import collect
from silva.train.stretch import Reading
from silva.tree import Author, Boundary, Message, Tool, assistant, call, system, tool_result, user
from silva.tree.exact import seen_ids

HERE = Path(__file__).parent
ACT = Tool(name="act", description="Act.", parameters={"type": "object", "properties": {"action": {"type": "string"}}})
FORMS: tuple[Form, ...] = ("tools", "react")


def folder_of(place: Path, template: str, marks: tuple[str, ...], end: str) -> Path:
    """A model's folder with byte-level words."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=400, show_progress=False, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(['Action: act\nAction Input: {"action": "turn_left"} You see: nothing.'] * 4, trainer)
    tokenizer.add_special_tokens([tokenizers.AddedToken(mark, normalized=False, special=True) for mark in marks])
    place.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(place / "tokenizer.json"))
    (place / "chat_template.jinja").write_text(template, encoding="utf-8")
    (place / "tokenizer_config.json").write_text(json.dumps({"eos_token": end}))
    return place


CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@pytest.fixture(scope="module")
def chatml(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    """A renderer whose words are cut by merges, as real models' are."""
    place = tmp_path_factory.mktemp("models") / "chatml"
    return open_renderer(folder_of(place, CHATML, ("<|im_start|>", "<|im_end|>"), "<|im_end|>"))


def view(*messages: Message, tools: tuple[Tool, ...] = (ACT,)) -> View:
    return View(messages=messages, tools=tools, sampling=Sampling(), deadline=1.0, session="s", images={})


def shown(form: Form, messages: tuple[Message, ...], tools: tuple[Tool, ...]):
    return (render(messages, tools), ()) if form == "react" else (messages, tools)


@pytest.mark.parametrize("form", FORMS)
async def test_a_run_of_the_expert_holds_the_ids_of_the_whole_conversation(tmp_path: Path, form: Form) -> None:
    settings = RolloutConfig.model_validate(
        {
            "run": "e",
            "env": "arithmetic",
            "policy": "expert",
            "renderer": "scripted",
            "agent": form,
            "lake": str(tmp_path / "lake"),
            "group": 2,
            "tasks": {"split": "chain", "limit": 3},
            "hosts": {"inline": True},
        }
    )
    result = await run_rollout(settings)
    assert [t.outcome.score for t in result.trajectories] == [1.0] * 6
    lake, renderer = Lake.open(settings.lake, mode="read"), open_renderer("scripted")
    for trajectory in lake.trajectories(run_id="e"):
        walk = lake.walk(trajectory)
        tools = walk[0].tools or ()
        messages, offered = shown(form, tuple(node.message for node in walk), tools)
        assert seen_ids(walk) == list(renderer.render(messages, offered, generation_prompt=False))
        for place, node in enumerate(walk):
            if node.author is not Author.POLICY:
                assert node.tokens is None
                continue
            assert node.tokens is not None and node.tokens.sampled and not node.tokens.logprobs
            assert node.attributes == {"renderer": "scripted"}
            drawn = node.tokens.ids[-node.tokens.sampled :]
            assert drawn[-1] in renderer.stop_ids and not set(drawn[:-1]) & renderer.stop_ids
            heard = renderer.parse(drawn, offered).message
            read = parse(heard, place) if form == "react" else heard
            assert [(c.name, c.parsed()) for c in read.tool_calls] == [
                (c.name, c.parsed()) for c in node.message.tool_calls
            ]
            assert read.text == node.message.text
        assert any(node.message.tool_calls for node in walk)


ARGUMENTS = st.dictionaries(st.text(max_size=8), st.one_of(st.integers(), st.text(max_size=20)), max_size=3)
ACTIONS = st.one_of(
    st.text(max_size=60).map(assistant),
    st.builds(lambda text, given: assistant(text, call("act", given)), st.text(max_size=30), ARGUMENTS),
)


@settings(max_examples=25, deadline=None)
@given(actions=st.lists(ACTIONS, min_size=1, max_size=3), form=st.sampled_from(FORMS))
def test_an_action_is_read_as_it_is_meant_or_refused(chatml: Renderer, actions: list[Message], form: Form) -> None:
    going, messages, ids = Rendering(chatml, form), (system("Rules."), user("Go.")), ()
    for number, action in enumerate(actions):
        try:
            turn = going.turn(view(*messages), action, "expert")
        except FormError:
            continue
        again = Rendering(chatml, form).turn(view(*messages), action, "expert")
        assert again == turn, "a resumed episode, which knows no ids, writes the same"
        assert turn.tokens is not None and turn.tokens.sampled == len(turn.tokens.ids)
        assert [(c.name, c.parsed()) for c in turn.message.tool_calls] == [
            (c.name, c.parsed()) for c in action.tool_calls
        ]
        assert turn.prompt_ids[: len(ids)] == ids
        ids = turn.prompt_ids + turn.tokens.ids
        messages = (*messages, turn.message)
        said, offered = shown(form, messages, (ACT,))
        assert chatml.render(said, offered, generation_prompt=False)[: len(ids)] == ids
        made = turn.message.tool_calls
        messages = (*messages, tool_result(made[0].id, f"seen {number}", "act") if made else user("And?"))


def test_what_the_form_cannot_hold_is_refused_by_name(chatml: Renderer) -> None:
    two = assistant("", call("act", {"action": "a"}, "1"), call("act", {"action": "b"}, "2"))
    with pytest.raises(FormError, match=r"2 calls in one turn .* use --agent tools"):
        Rendering(chatml, "react").turn(view(user("Go.")), two, "expert")
    turn = Rendering(chatml, "tools").turn(view(user("Go.")), two, "expert")
    assert [c.parsed()["action"] for c in turn.message.tool_calls] == ["a", "b"]
    with pytest.raises(FormError, match=r"of 'Action: fly' the agent would read \['fly'\] where words is meant"):
        Rendering(chatml, "react").turn(view(user("Go.")), assistant("Action: fly"), "expert")
    with pytest.raises(FormError, match="would read words"):
        Rendering(chatml, "react").turn(view(user("Go.")), assistant("one\nObservation: two"), "expert")


def test_a_template_whose_head_the_reply_does_not_follow_is_refused(tmp_path: Path) -> None:
    opens = CHATML.replace("assistant\n' }}{% endif", "assistant\n<think>\n' }}{% endif")
    renderer = open_renderer(folder_of(tmp_path / "opens", opens, ("<|im_start|>", "<|im_end|>"), "<|im_end|>"))
    with pytest.raises(FormError, match="template of opens does not write a reply after the head"):
        Rendering(renderer, "react").turn(view(user("Go.")), assistant("Done."), "expert")
    endless = CHATML.replace("<|im_end|>", "")
    renderer = open_renderer(folder_of(tmp_path / "endless", endless, ("<|im_start|>", "<|im_end|>"), "<|im_end|>"))
    with pytest.raises(FormError, match="does not end a reply with an id that stops the model"):
        Rendering(renderer, "react").turn(view(user("Go.")), assistant("Done."), "expert")


UNENDED = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>\n' + m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)


def test_where_no_mark_ends_a_turn_the_next_roles_mark_is_the_stop_and_stands_once(tmp_path: Path) -> None:
    marks = ("<|system|>", "<|user|>", "<|assistant|>", "<|endoftext|>")
    folder = folder_of(tmp_path / "unended", UNENDED, marks, "<|endoftext|>")
    asked = open_renderer(folder).render((user("?"),), ())[0]
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [asked]}))
    renderer = open_renderer(folder)
    rendering = Rendering(renderer, "tools")
    first = rendering.turn(view(user("Go."), tools=()), assistant("Done."), "expert")
    assert first.tokens is not None and first.tokens.ids[-1] == asked
    messages = (user("Go."), first.message, user("Again."))
    second = rendering.turn(view(*messages, tools=()), assistant("Done too."), "expert")
    assert second.tokens is not None
    whole = renderer.render((*messages, second.message), (), generation_prompt=False)
    assert (*second.prompt_ids, *second.tokens.ids) == (*whole, asked)
    before = (*first.prompt_ids, *first.tokens.ids)
    assert second.prompt_ids[: len(before)] == before  # the stop that was sampled is the mark of what follows


async def test_an_expert_whose_turn_has_no_form_fails_as_the_agent(tmp_path: Path) -> None:
    name = f"{HERE / 'two_calls.py'}:TwoCalls"
    settings = RolloutConfig.model_validate(
        {"run": "e", "env": name, "policy": "expert", "renderer": "scripted", "agent": "react", "hosts": {"inline": 1}}
        | {"lake": str(tmp_path / "lake")}
    )
    (trajectory,) = (await run_rollout(settings)).trajectories
    failure = trajectory.outcome.failure
    assert failure is not None and (failure.boundary, failure.code) == (Boundary.AGENT, "agent.form")
    assert failure.message.startswith("the expert's turn: 2 calls in one turn")


def test_a_renderer_is_for_built_in_policies_and_a_form() -> None:
    with pytest.raises(ValueError, match="for --policy expert or null"):
        RolloutConfig.model_validate({"env": "arithmetic", "renderer": "local"})
    with pytest.raises(ValueError, match="tools or react"):
        RolloutConfig.model_validate(
            {"env": "arithmetic", "policy": "expert", "renderer": "local", "agent": "program: true"}
        )
    plain = RolloutConfig.model_validate({"env": "arithmetic", "policy": "expert"})
    chosen = plain.model_copy(update={"renderer": "scripted"})
    assert chosen.growth_digest() != plain.growth_digest()


async def test_a_renderer_that_cannot_be_opened_is_told_before_the_run(tmp_path: Path) -> None:
    settings = RolloutConfig.model_validate(
        {"run": "e", "env": "arithmetic", "policy": "expert", "renderer": str(tmp_path / "none"), "tasks": {"limit": 1}}
        | {"lake": str(tmp_path / "lake"), "hosts": {"inline": True}}
    )
    with pytest.raises(UsageError, match="model folder none: there is no such folder"):
        await run_rollout(settings)
    assert Lake.open(settings.lake, mode="read").run("e") is None


@pytest.mark.slow
def test_the_bundled_models_own_renderer(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    renderer = open_renderer("local")
    for form in FORMS:
        going, messages = Rendering(renderer, form), (system("Rules."), user("Go."))
        for action in (assistant("", call("act", {"action": "left"})), assistant("I am done.")):
            turn = going.turn(view(*messages), action, "expert")
            assert turn.tokens is not None
            said, offered = shown(form, (*messages, turn.message), (ACT,))
            whole = renderer.render(said, offered, generation_prompt=False)
            assert whole[: len(turn.prompt_ids) + turn.tokens.sampled] == turn.prompt_ids + turn.tokens.ids
            messages = (*messages, turn.message, user("And?"))


async def test_samples_say_which_tokens_their_ids_stand_for(tmp_path: Path) -> None:
    """By what the tokens are: a folder of as many tokens, its ids in another order, is another vocabulary."""
    one = folder_of(tmp_path / "one", CHATML, ("<|im_start|>", "<|im_end|>"), "<|im_end|>")
    other = folder_of(tmp_path / "other", CHATML, ("<|im_end|>", "<|im_start|>"), "<|im_end|>")
    told: dict[str, str] = {}
    for name, folder in (("a", one), ("b", other)):
        given = {
            "run": name,
            "env": "arithmetic",
            "policy": "expert",
            "renderer": str(folder),
            "agent": "react",
            "lake": str(tmp_path / "lake"),
            "tasks": {"limit": 1},
            "hosts": {"inline": True},
        }
        await run_rollout(RolloutConfig.model_validate(given))
        with Lake.open(tmp_path / "lake", mode="read") as lake:
            (sample,) = collect(lake, lake.trajectories(run_id=name), Reading(logprobs="optional")).samples
        told[name] = sample.attributes["tokenizer"]
    assert told == {"a": table_digest(token_table(one)), "b": table_digest(token_table(other))}
    assert told["a"] != told["b"] and len(token_table(one)) == len(token_table(other))
    people = RolloutConfig.model_validate({"run": "c", "env": "arithmetic", "model": f"local:{one}", "lake": "l"})
    with pytest.raises(UsageError, match="stand for other tokens than those of"):
        written_with(people.model_copy(update={"guidance": GuidanceConfig(renderer=str(other))}))
    assert written_with(people) == told["a"]
