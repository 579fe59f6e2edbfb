import asyncio

import msgspec
import pytest

from silva.envs.protocol import Observation
from silva.rollout.agent import Turn
from silva.rollout.path import Diverged, Path
from silva.train.samples import samples
from silva.tree import Author, InexactTokensError, Node, Tokens, Tree, assistant, seen_ids, token_walk, user


class Memory:
    def __init__(self):
        self.records = []

    def submit(self, records):
        durable = asyncio.get_running_loop().create_future()

        def keep():
            self.records.extend(records)
            durable.set_result(None)

        asyncio.get_running_loop().call_soon(keep)
        return durable

    @property
    def nodes(self):
        return [record for record in self.records if isinstance(record, Node)]


def path_on(memory, slot="0.0", written=None, stored=()):
    return Path(memory, "run", "tree", slot, set() if written is None else written, stored)


def said(*texts, **fields):
    return Observation(messages=tuple(user(text) for text in texts), **fields)


async def grow(memory, slot, written, replies):
    path = path_on(memory, slot, written)
    path.observe(said("question"), 0.0)
    for reply in replies:
        path.act(Turn(message=assistant(reply)), 0.0)
        path.observe(said(f"heard {reply}"), 0.0)
        await path.durable()
    await path.finish()
    return path


async def test_the_group_shares_its_prompt_and_parts_at_the_first_sample():
    memory, written = Memory(), set()
    await grow(memory, "0.0", written, ["same", "x"])
    await grow(memory, "1.0", written, ["same", "y"])
    tree = Tree(memory.nodes)
    assert len(tree.roots) == 1 and len(tree.branches) == 1 and len(tree.leaves) == 2
    assert len(tree) == 1 + 2 * 4


async def test_a_turn_is_durable_before_the_next_one_and_observations_at_the_end():
    memory = Memory()
    path = path_on(memory)
    path.observe(said("question"), 0.0)
    path.act(Turn(message=assistant("one")), 0.0)
    await path.durable()
    assert [n.author for n in memory.nodes] == [Author.ENVIRONMENT, Author.POLICY]
    path.observe(said("heard"), 0.0)
    await path.finish()
    assert len(memory.nodes) == 3


async def test_a_resumed_path_remembers_turns_and_writes_nothing_twice():
    whole = Memory()
    await grow(whole, "0.0", set(), ["a", "b", "c"])
    stored = whole.nodes[:4]  # question, a, heard a, b: killed before b's observation was kept
    resumed = Memory()
    path = path_on(resumed, "0.0", {n.id for n in stored}, stored)
    path.observe(said("question"), 0.0)
    asked = 0
    for reply in ["a", "b", "c"]:
        remembered = path.remembered
        if remembered is not None:
            path.remember(remembered)
        else:
            asked += 1
            path.act(Turn(message=assistant(reply)), 0.0)
        path.observe(said(f"heard {reply}"), 0.0)
        await path.durable()
    await path.finish()
    assert asked == 1
    assert {n.id for n in stored}.isdisjoint(n.id for n in resumed.nodes)
    assert Tree([*stored, *resumed.nodes]).fingerprint() == Tree(whole.nodes).fingerprint()


async def test_an_environment_that_does_not_repeat_itself_is_a_divergence():
    whole = Memory()
    await grow(whole, "0.0", set(), ["a"])
    path = path_on(Memory(), "0.0", {n.id for n in whole.nodes}, whole.nodes)
    path.observe(said("question"), 0.0)
    node = path.remembered
    assert node is not None
    path.remember(node)
    with pytest.raises(Diverged, match="stored 'heard a', now 'heard otherwise'"):
        path.observe(said("heard otherwise"), 0.0)


async def test_token_ids_along_the_walk_are_what_the_model_saw():
    memory = Memory()
    path = path_on(memory)
    path.observe(said("q"), 0.0)
    path.act(Turn(message=assistant("a"), tokens=Tokens(ids=(7, 8), sampled=2), prompt_ids=(1, 2)), 0.0)
    path.observe(said("r"), 0.0)
    path.act(Turn(message=assistant("b"), tokens=Tokens(ids=(9,), sampled=1), prompt_ids=(1, 2, 7, 8, 3)), 0.0)
    await path.finish()
    ids = [i for node in memory.nodes if node.tokens for i in node.tokens.ids]
    assert ids == [1, 2, 7, 8, 3, 9]


async def test_a_rewritten_context_restarts_the_ids_and_says_so():
    memory = Memory()
    path = path_on(memory)
    path.observe(said("q"), 0.0)
    path.act(Turn(message=assistant("a"), tokens=Tokens(ids=(7,), sampled=1), prompt_ids=(1,)), 0.0)
    path.act(Turn(message=assistant("b"), tokens=Tokens(ids=(9,), sampled=1), prompt_ids=(1, 5)), 0.0)
    await path.finish()
    last = memory.nodes[-1]
    assert last.tokens.ids == (1, 5, 9) and last.attributes["tokens"] == "restart"


async def test_a_turn_whose_backend_did_not_say_what_it_saw_is_marked_and_refused_by_name():
    memory = Memory()
    path = path_on(memory)
    path.observe(said("q"), 0.0)
    path.act(Turn(message=assistant("a"), tokens=Tokens(ids=(7, 8), sampled=2, logprobs=(-1.0, -1.0)), model="m"), 0.0)
    path.observe(said("r"), 0.0)
    whole = Tokens(ids=(9,), sampled=1, logprobs=(-1.0,))
    path.act(Turn(message=assistant("b"), tokens=whole, prompt_ids=(1, 7, 8, 3)), 0.0)
    await path.finish()
    first, second = (node for node in memory.nodes if node.author is Author.POLICY)
    assert first.tokens.ids == (7, 8) and first.attributes["tokens"] == "completion"
    assert second.tokens.ids == (1, 7, 8, 3, 9) and second.attributes["tokens"] == "restart", "nothing stands twice"
    assert seen_ids(memory.nodes) == [1, 7, 8, 3, 9] == list(token_walk(memory.nodes).ids)
    for read in (token_walk, samples):
        with pytest.raises(InexactTokensError, match=rf"node {first.id[:12]} .*model m.* has no prompt ids"):
            read(memory.nodes[:2])


async def test_a_turn_whose_backend_gave_no_ids_says_so_and_is_refused_for_that_reason():
    memory = Memory()
    path = path_on(memory)
    path.observe(said("q"), 0.0)
    path.act(Turn(message=assistant("a"), model="m"), 0.0)
    await path.finish()
    turn = memory.nodes[-1]
    assert turn.tokens is None and turn.attributes["tokens"] == "absent"
    unmarked = msgspec.structs.replace(turn, attributes={})  # as one that another program recorded
    for read in (token_walk, samples):
        with pytest.raises(InexactTokensError, match=r"model m\) has no token ids: its backend returned none"):
            read(memory.nodes)
        with pytest.raises(InexactTokensError, match=r"model m\) has no token ids: it was recorded without them"):
            read([*memory.nodes[:-1], unmarked])


@pytest.mark.parametrize("marked", [True, False])
async def test_a_resumed_path_knows_no_more_of_what_was_seen_than_is_stored(marked: bool):
    tokens = Tokens(ids=(7,), sampled=1, logprobs=(-1.0,)) if marked else None
    whole = Memory()
    path = path_on(whole)
    path.observe(said("q"), 0.0)
    path.act(Turn(message=assistant("a"), tokens=tokens), 0.0)
    await path.finish()
    again = path_on(Memory(), "0.0", {n.id for n in whole.nodes}, whole.nodes)
    again.observe(said("q"), 0.0)
    again.remember(again.remembered)
    again.act(Turn(message=assistant("b"), tokens=Tokens(ids=(9,), sampled=1), prompt_ids=(1, 7)), 0.0)
    assert again.leaf.tokens.ids == (1, 7, 9) and again.leaf.attributes["tokens"] == "restart"
