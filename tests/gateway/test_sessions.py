"""What a session makes of a program's calls: nodes once, branches where words part, ids that go on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silva.models.gateway.index import Entry, TreeIndex
from silva.models.gateway.keys import message_key
from silva.models.gateway.rollout import Rollout
from silva.models.gateway.seen import SeenIds
from silva.models.gateway.session import Session
from silva.models.model import Completion
from silva.tree import (
    InexactTokensError,
    Message,
    Node,
    Outcome,
    Status,
    ThinkingPart,
    Tokens,
    Tool,
    ToolCall,
    Tree,
    assistant,
    encode,
    seen_ids,
    system,
    token_walk,
    tool_result,
    user,
)

ROLLOUT = Rollout(run_id="run", name="main", task_id="task")
TOOL = Tool(name="look", parameters={"type": "object"})


def new_session(rollout: Rollout = ROLLOUT, index: TreeIndex | None = None) -> Session:
    return Session(rollout, index or TreeIndex(rollout.tree_id))


class Program:
    """A client of a session: keeps every node made, as the lake would."""

    def __init__(self, session: Session | None = None) -> None:
        self.session = session or new_session()
        self.nodes: dict[str, Node] = {}
        self.drawn: dict[str, tuple[int, ...]] = {}
        """What the backend was sent for a turn and what it sampled, by the turn's node."""
        self.asked = 0

    def ask(
        self,
        messages: list[Message],
        reply: Message,
        tools: tuple[Tool, ...] = (),
        *,
        ids: bool = False,
        rewrites: bool = False,
        tokens: Tokens | None = None,
    ) -> list[Node]:
        self.asked += 1
        completion = Completion(message=reply, model="m", policy_version="v1", tokens=tokens)
        if ids:
            place = self.session.match(messages, tools)
            known = place.known()[0]
            kept = known[1:] if rewrites else known  # as a template that writes the past otherwise now
            prompt = (*kept, 1000 + len(messages), 2000)
            sampled = tuple(range(self.asked * 10, self.asked * 10 + 3))
            tokens = Tokens(ids=sampled, sampled=3, logprobs=(-0.1, -0.2, -0.3))
            completion = Completion(message=reply, model="m", policy_version="v1", tokens=tokens, prompt_ids=prompt)
        request = f"request {self.asked}"
        attributes = {"request": request, "reply": f"reply {self.asked}"}
        keys = [message_key(message) for message in messages]
        nodes = self.session.grow(messages, keys, tools, completion, attributes)
        self.session.keep(nodes, [encode(node) for node in nodes], keys)
        for node in nodes:
            assert node.id not in self.nodes, "a node is written once"
            self.nodes[node.id] = node
        if ids and completion.tokens is not None:
            self.drawn[nodes[-1].id] = completion.prompt_ids + completion.tokens.ids
        return nodes

    @property
    def tree(self) -> Tree:
        return Tree(self.nodes.values())


def said(nodes: list[Node]) -> list[str]:
    return [node.message.text for node in nodes]


def test_a_conversation_that_goes_on_adds_only_what_is_new() -> None:
    program = Program()
    assert said(program.ask([system("s"), user("a")], assistant("1"))) == ["s", "a", "1"]
    assert said(program.ask([system("s"), user("a"), assistant("1"), user("b")], assistant("2"))) == ["b", "2"]
    assert len(program.tree.leaves) == 1
    assert program.nodes[program.session.leaf or ""].message.text == "2"


def test_a_client_that_writes_arguments_anew_and_drops_thinking_goes_on_from_the_same_turn() -> None:
    program = Program()
    reply = Message(
        role="assistant",
        parts=(ThinkingPart(text="hm"),),
        tool_calls=(ToolCall(id="c1", name="look", arguments='{"b":1,"a": "x"}'),),
    )
    program.ask([user("a")], reply, (TOOL,))
    again = assistant("", ToolCall(id="c1", name="look", arguments='{ "a": "x", "b": 1 }'))
    nodes = program.ask([user("a"), again, tool_result("c1", "seen")], assistant("done"), (TOOL,))
    assert [node.message.role for node in nodes] == ["tool", "assistant"]
    assert len(program.tree.leaves) == 1


def test_asking_the_same_again_makes_a_sibling_even_with_the_same_words() -> None:
    program = Program()
    program.ask([user("a")], assistant("1"))
    program.ask([user("a")], assistant("1"))
    program.ask([user("a")], assistant("2"))
    assert len(program.tree.leaves) == 3
    assert len(program.tree.roots) == 1
    nodes = program.ask([user("a"), assistant("1"), user("b")], assistant("3"))
    assert len(nodes) == 2, "what was told last is gone on from"


def test_a_rewritten_turn_branches_where_the_words_part() -> None:
    program = Program()
    program.ask([user("a")], assistant("1"))
    program.ask([user("a"), assistant("1"), user("b")], assistant("2"))
    nodes = program.ask([user("a"), assistant("1"), user("c")], assistant("3"))
    assert said(nodes) == ["c", "3"]
    (branch,) = program.tree.branches
    assert branch.message.text == "1"


def test_a_summary_and_a_sub_agent_begin_walks_of_their_own_in_the_same_tree() -> None:
    program = Program()
    program.ask([system("s"), user("a")], assistant("1"))
    program.ask([system("s"), user("a"), assistant("1"), user("b")], assistant("2"))
    program.ask([system("sub"), user("do")], assistant("sub done"))
    program.ask([system("s"), user("summary of all")], assistant("3"))
    program.ask([system("s"), user("summary of all"), assistant("3"), user("c")], assistant("4"))
    tree = program.tree
    assert len(tree.roots) == 2
    assert len(tree.leaves) == 3
    assert program.nodes[program.session.leaf or ""].message.text == "4"
    assert len(program.session.leaves) == 3


def test_tools_that_change_stand_on_the_node_where_they_change() -> None:
    program = Program()
    first = program.ask([user("a")], assistant("1"), (TOOL,))
    assert first[0].tools == (TOOL,) and first[1].tools is None
    later = program.ask([user("a"), assistant("1"), user("b")], assistant("2"), ())
    assert later[0].tools == () and later[1].tools is None


def test_a_repeated_request_is_answered_from_what_was_recorded_also_after_a_restart() -> None:
    program = Program()
    program.ask([user("a")], assistant("1"), ids=True)
    answer = program.session.answered("request 1")
    assert answer is not None and answer.completion.message.text == "1" and answer.reply == "reply 1"
    later = new_session()
    later.load(program.nodes.values())
    again = later.answered("request 1")
    assert again is not None and again.reply == "reply 1"
    assert again.completion.tokens == answer.completion.tokens
    assert again.completion.prompt_ids == answer.completion.prompt_ids
    assert later.answered("request 2") is None
    assert (later.turns, later.leaves) == (program.session.turns, program.session.leaves)


def test_rollouts_of_one_task_share_the_prompt_and_nothing_else() -> None:
    index = TreeIndex(ROLLOUT.tree_id)
    one = Program(new_session(index=index))
    other = Program(new_session(Rollout(run_id="run", name="other", task_id="task", index=1), index))
    first = one.ask([user("a")], assistant("1"))
    second = other.ask([user("a")], assistant("1"))
    assert said(second) == ["1"] and second[0].parent_id == first[0].id
    assert second[0].id != first[1].id
    third = other.ask([user("a"), assistant("1"), user("b")], assistant("2"))
    assert third[0].parent_id == second[0].id


def test_a_backend_without_ids_leaves_nodes_that_say_so() -> None:
    program = Program()
    nodes = program.ask([user("a")], assistant("1"))
    assert nodes[-1].tokens is None and nodes[-1].attributes["tokens"] == "absent"


def test_a_backend_that_says_only_what_it_drew_leaves_that_on_the_nodes_and_training_names_it() -> None:
    program = Program()
    drawn = Tokens(ids=(5, 6), sampled=2, logprobs=(-0.1, -0.2))
    (_, turn) = program.ask([user("a")], assistant("1"), tokens=drawn)
    assert turn.tokens == drawn and turn.attributes["tokens"] == "completion"
    with pytest.raises(InexactTokensError, match="has no prompt ids: its backend returned only what it drew"):
        token_walk(program.tree.walk(turn.id))
    answer = program.session.answered("request 1")
    assert answer is not None and (answer.completion.tokens, answer.completion.prompt_ids) == (drawn, ())
    goes_on = [user("a"), assistant("1"), user("b")]
    assert program.session.match(goes_on, ()).known() == ((), (), True), "what was seen is not known"
    (_, later) = program.ask(goes_on, assistant("2"), ids=True)
    assert later.attributes["tokens"] == "restart"
    assert token_walk(program.tree.walk(later.id)).ids == (1003, 2000, 20, 21, 22)


@st.composite
def _calls(draw: st.DrawFn) -> list[tuple[int, int, str, bool]]:
    """Calls of a program: which earlier reply to go on from, how much of it to keep, what to add; or begin afresh."""
    return draw(
        st.lists(
            st.tuples(st.integers(0, 30), st.integers(0, 12), st.sampled_from(["x", "y", "z"]), st.booleans()),
            min_size=1,
            max_size=12,
        )
    )


@settings(max_examples=150, deadline=None)
@given(_calls())
def test_whatever_a_program_asks_the_nodes_are_a_tree_that_holds_each_conversation(
    calls: list[tuple[int, int, str, bool]],
) -> None:
    program = Program()
    conversations: list[list[Message]] = [[]]
    for source, keep, word, opens in calls:
        before = [] if opens else conversations[source % len(conversations)][:keep]
        asked = [*before, user(word)]
        reply = assistant(f"r{len(conversations) % 3}")
        nodes = program.ask(asked, reply, ids=True, rewrites=program.asked % 5 == 4)
        conversations.append([*asked, reply])
        walk = program.tree.walk(nodes[-1].id)
        assert [node.message for node in walk] == [*asked, reply]
        assert token_walk(walk).ids == program.drawn[nodes[-1].id], "ids along the walk are what the model saw"
    index = program.session._index
    assert index.size == sum(entry.size for entry in index.entries.values())
    loaded = new_session()
    loaded.load(program.nodes.values())
    for id, node in program.nodes.items():
        walk = program.tree.walk(id)
        for each in (index, loaded._index):
            seen, turn = each.seen(each.entries[id])
            assert seen == tuple(seen_ids(walk) or ()), node.depth
            sampled = [step.id for step in walk if step.tokens is not None]
            assert (turn and turn.id) == (sampled[-1] if sampled else None)
    assert loaded.turns == program.session.turns
    trajectory = program.session.trajectory(Outcome(status=Status.COMPLETED))
    assert trajectory.leaf_id in program.nodes


def test_what_was_dropped_from_memory_is_gone_on_from_once_it_is_recalled() -> None:
    program = Program()
    for word in ("a", "b", "c"):
        program.ask([user(word)], assistant(f"to {word}"), ids=True)
    index = program.session._index
    index.drop(0)
    assert len(index.entries) == 2, "what was touched last stays"
    goes_on = [user("a"), assistant("to a"), user("more")]
    keys = [message_key(message) for message in goes_on]
    assert program.session.lacks(goes_on, keys, ())
    assert not program.session.lacks([user("new")], [message_key(user("new"))], ())
    program.session.recall(program.nodes.values())
    assert not program.session.lacks(goes_on, keys, ())
    nodes = program.ask(goes_on, assistant("and"), ids=True)
    assert said(nodes) == ["more", "and"]
    assert nodes[-1].attributes.get("tokens") is None
    assert index.size == sum(entry.size for entry in index.entries.values())


def test_a_turn_reads_only_the_turns_that_no_turn_has_read_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    really = Entry.node.fget
    assert really is not None
    monkeypatch.setattr(Entry, "node", property(lambda entry: (read.append(entry.id), really(entry))[1]))
    program = Program()
    messages: list[Message] = []
    for number in range(30):
        messages += [user(f"say {number}")]
        program.ask(messages, assistant(f"said {number}"), ids=True)
        messages += [assistant(f"said {number}")]
    assert len(read) == 1, "the first turn, by the second; nobody knew that there would be one"
    first = messages[:2]
    program.ask([*first, user("no, say this")], assistant("this"), ids=True)
    assert len(read) == 2


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 2**40), max_size=40), max_size=5), st.sampled_from([0, 14, 70_000]))
def test_seen_ids_are_those_that_were_taken_in(parts: list[list[int]], before: int) -> None:
    seen = SeenIds(tuple(range(before)))
    for part in parts:
        seen.extend(tuple(part))
    assert seen.ids == (*range(before), *(each for part in parts for each in part))
    assert seen.count == len(seen.ids)


def test_what_was_found_is_looked_for_again_once_the_tree_has_changed() -> None:
    program = Program()
    index = program.session._index
    first, second = [user("one")], [user("two")]
    program.ask(first, assistant("1"))
    said = [*first, assistant("1")]
    keys = tuple(map(message_key, said))
    entry, covered = index.match(ROLLOUT.slot, keys, "")
    assert entry is not None and covered == 2
    assert index.match(ROLLOUT.slot, keys, "") == (entry, 2)
    assert index.match("another~0", keys, "") != (entry, 2)
    longer = tuple(map(message_key, [*said, user("more"), assistant("2")]))
    assert index.match(ROLLOUT.slot, longer, "")[1] == 2
    program.ask([*said, user("more")], assistant("2"))
    assert index.match(ROLLOUT.slot, longer, "")[1] == 4
    program.ask(second, assistant("3"))
    assert index.match(ROLLOUT.slot, longer, "")[1] == 4
    index.drop(0)
    assert index.match(ROLLOUT.slot, longer, "") == (None, 0)
