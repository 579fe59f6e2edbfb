"""A scripted person: what makes it speak, and that nothing is said twice."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from silva.errors import UsageError
from silva.guide import Mailbox
from silva.guide.mailroom import Mailroom
from silva.lake import Lake
from silva.loops.apollo.person import ScriptedPerson
from silva.loops.apollo.script import ScriptedRules, read_script
from silva.loops.apollo.speaking import ScriptedMailroom, speak
from silva.models.scripted import Script, ScriptedServer
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.guided_nodes import not_taken, takes_turn
from silva.rollout.run import Hooks
from silva.tree import Author, Node, assistant, call, user

TASK = "arithmetic/chain/0"

ADDER = """
def reply(request):
    said = [str(m["content"] or "") for m in request["messages"]]
    if any("say 7" in text for text in said):
        return "7"
    made = sum(m["role"] == "tool" for m in request["messages"])
    return {"tool_calls": [{"name": "add", "arguments": {"number": made}, "id": f"c{made}"}]}
"""

READER = """
import re

def reply(request):
    asked = next(m["content"] for m in request["messages"] if m["role"] == "user")
    made = sum(m["role"] == "tool" for m in request["messages"])
    numbers = [int(each) for each in re.findall(r"-?[0-9]+", asked)]
    if made == len(numbers):
        return str(sum(numbers))
    number = 1000 if made == 1 else numbers[made]
    return {"tool_calls": [{"name": "add", "arguments": {"number": number}, "id": f"c{made}"}]}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a run and its mailbox lie."""
    monkeypatch.setenv("SILVA_HOME", str(tmp_path / "home"))
    return tmp_path


def rules(*given: dict[str, Any]) -> ScriptedRules:
    return ScriptedRules.model_validate({"by": "coach", "rules": given})


def walk(*answers: str) -> list[Node]:
    """A question, then an action and an answer for each; no answer where it is empty."""
    nodes: list[Node] = []

    def add(author: Author, message: Any) -> None:
        depth = len(nodes)
        parent = nodes[-1].id if nodes else None
        nodes.append(
            Node(id=f"n{depth}", run_id="r", tree_id="t", parent_id=parent, depth=depth, author=author, message=message)
        )

    add(Author.ENVIRONMENT, user("task"))
    for place, answer in enumerate(answers, start=1):
        add(Author.POLICY, assistant("", call("open", {"file": f"f{place}"}, f"c{place}")))
        if answer:
            add(Author.ENVIRONMENT, user(answer))
    return nodes


def person(folder: Path, *given: dict[str, Any]) -> tuple[ScriptedPerson, list[tuple[float, Any]]]:
    later: list[tuple[float, Any]] = []
    return ScriptedPerson(rules(*given), Mailbox(folder, "r"), lambda s, c: later.append((s, c))), later


def spoken(folder: Path) -> list[tuple[str, str, int]]:
    return [(each.kind, each.text or each.pattern, each.turn) for each in Mailbox(folder, "r").read()]


@pytest.mark.parametrize(
    ("when", "turns"),
    [
        ({"turn": 2}, [2]),
        ({"every": 2}, [2, 4]),
        ({"observation": "No such"}, [3]),
        ({"action": r"f[14]"}, [1, 4]),
        ({"action": r"f[14]", "every": 2}, [4]),
        ({"rule": "error-observation"}, [2]),
        ({"turn": 9}, []),
    ],
)
def test_a_rule_holds_of_the_turns_it_describes(tmp_path: Path, when: dict[str, Any], turns: list[int]) -> None:
    coach, _ = person(tmp_path, {"when": when, "bad": True, "times": 0})
    coach.watch("a", "t", walk("fine", "error: no", "No such file", "well"))
    assert [turn for _, _, turn in spoken(tmp_path)] == turns


def test_a_rule_speaks_as_often_as_it_may_in_each_trajectory(tmp_path: Path) -> None:
    coach, _ = person(tmp_path, {"when": {"observation": "x"}, "say": "ho", "times": 2})
    for name in ("a", "b"):
        for upto in (1, 2, 3):
            coach.watch(name, "t", walk(*["x"] * upto))
    assert [word.to for word in Mailbox(tmp_path, "r").read()] == ["a", "a", "b", "b"]


def test_a_turn_is_judged_once_it_has_ended(tmp_path: Path) -> None:
    coach, _ = person(tmp_path, {"when": {"turn": 0}, "forbid": "rm"}, {"when": {"turn": 2}, "good": True})
    coach.watch("a", "t", walk())
    coach.watch("a", "t", walk("x", ""))
    assert spoken(tmp_path) == [("forbid", "rm", 0)]
    coach.watch("a", "t", walk("x", "y"))
    assert spoken(tmp_path)[1:] == [("good", "", 2)]


def test_one_that_begins_again_says_nothing_twice_and_takes_back_its_pause(tmp_path: Path) -> None:
    given = ({"when": {"turn": 1}, "pause": 3.0}, {"when": {"turn": 1}, "say": "so"})
    for _ in range(2):
        coach, later = person(tmp_path, *given)
        coach.watch("a", "t", walk("x"))
        assert [seconds for seconds, _ in later] == [3.0], "the first one was killed before it could"
    later[0][1]()
    assert [kind for kind, _, _ in spoken(tmp_path)] == ["pause", "say", "resume"]
    assert person(tmp_path, *given)[0].watch("a", "t", walk("x")) == []


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ({"rules": []}, "rules: "),
        ({"rules": [{"when": {"turn": 1}}]}, "give one of say, pause"),
        ({"rules": [{"when": {"turn": 1}, "say": "a", "stop": True}]}, "given: say, stop"),
        ({"rules": [{"when": {"turn": 0}, "bad": True}]}, "nothing to praise or blame"),
        ({"rules": [{"when": {"action": "("}, "say": "a"}]}, "no regular expression"),
        ({"rules": [{"when": {"rule": "x"}, "say": "a"}]}, "no rule 'x': there are error-observation"),
        ({"rules": [{"when": {"turns": 1}, "say": "a"}]}, "rules.0.when.turns"),
        ({"rules": [{"name": "a", "when": {"turn": 1}, "say": "a"}] * 2}, "two rules are called 'a'"),
        ({"rules": [{"when": {"turn": 0}, "back": True}]}, "to go back to"),
        ({"rules": [{"when": {"turn": 1}, "back": {"say": "a", "action": "b"}}]}, "not both"),
        ({"rules": [{"when": {"turn": 1}, "back": {"action": {"nam": "x"}}}]}, "rules.0.back.action: action"),
        ({"rules": [{"when": {"turn": 1}, "back": {"action": "{"}}]}, "begins as JSON and is none"),
        ({"rules": [{"when": {"turn": 1}, "approve": True}]}, "when.waits goes with approve, reject, edit"),
        ({"rules": [{"when": {"waits": "."}, "say": "a"}]}, "when.waits goes with approve, reject, edit"),
        ({"rules": [{"when": {"waits": ".", "rule": "blind-edit"}, "reject": True}]}, "what waits has not been taken"),
        ({"rules": [{"when": {"turn": 2}, "back": {"turn": 1, "action": {"expert": True}}}]}, "leave turn out"),
        ({"rules": [{"when": {"expert": "better"}, "bad": True}]}, "rules.0.when.expert: Input should be 'same'"),
        ({"rules": [{"when": {"waits": "."}, "edit": {"arguments": {}}}]}, "rules.0.edit: action"),
        (None, "the whole"),
    ],
)
def test_a_bad_script_is_told_in_a_line(tmp_path: Path, script: Any, told: str) -> None:
    file = tmp_path / "script.yaml"
    file.write_text(yaml.safe_dump(script))
    with pytest.raises(UsageError, match=told) as caught:
        read_script(file)
    assert "\n" not in str(caught.value)


def test_a_script_that_is_not_there_or_no_yaml_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read_script(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("rules: [")
    with pytest.raises(UsageError, match="is not YAML"):
        read_script(tmp_path / "bad.yaml")


def settings(folder: Path, url: str, turns: int = 9) -> RolloutConfig:
    return RolloutConfig.model_validate(
        {
            "run": "r",
            "env": "arithmetic",
            "lake": str(folder / "lake"),
            "model": f"{url}#scripted",
            "tasks": {"split": "chain", "limit": 2},
            "budget": {"turns": turns},
            "retries": 0,
        }
    )


async def test_in_the_rollouts_process_it_is_heard_before_the_very_next_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SILVA_HOME", str(tmp_path / "home"))
    (tmp_path / "adder.py").write_text(ADDER)
    script = rules({"when": {"turn": 3}, "say": "say 7"}, {"when": {"turn": 2}, "bad": True, "why": "it was wrong"})
    async with ScriptedServer(Script(function="adder.py:reply", folder=str(tmp_path))) as server:
        config = settings(tmp_path, server.url)
        room = ScriptedMailroom.scripted(script, config.lake, "r")
        await run_rollout(config, hooks=Hooks(guidance=room))
    with Lake.open(tmp_path / "lake", mode="read") as lake:
        given = lake.supervisions(run_id="r")
        for trajectory in lake.trajectories(run_id="r"):
            nodes = lake.walk(trajectory)
            acted = [node for node in nodes if node.author is Author.POLICY]
            (words,) = [node for node in nodes if node.author is Author.PERSON]
            assert len(acted) == 4 and nodes.index(words) == nodes.index(acted[3]) - 1
            assert {(each.verdict, each.by) for each in given if each.node_id == acted[1].id} == {("bad", "coach")}


class Coached:
    """A run with a scripted person in its process, read."""

    def __init__(self, folder: Path, room: ScriptedMailroom) -> None:
        self.room = room
        with Lake.open(folder / "lake", mode="read") as lake:
            attempts = [each for each in lake.trajectories(run_id="r") if each.task_id == TASK]
            self.attempts = sorted(attempts, key=lambda each: each.attempt)
            self.walks = [lake.walk(each) for each in self.attempts]
            self.given = [each for each in lake.supervisions(run_id="r") if each.source == "person"]
        self.said = Mailbox(room.mailbox.path.parent, "r").read()

    def added(self, attempt: int = -1) -> list[tuple[str, int]]:
        """Who added which number on an attempt, as it was taken."""
        left = not_taken(self.walks[attempt])
        acted = [node for node in self.walks[attempt] if takes_turn(node) and node.id not in left]
        return [(node.author.value, made.parsed()["number"]) for node in acted for made in node.message.tool_calls]

    def words(self, attempt: int = -1) -> list[str]:
        return [
            n.message.text for n in self.walks[attempt] if n.author is Author.PERSON and n.message.role != "assistant"
        ]


async def coached(
    folder: Path, *given: dict[str, Any], guidance: dict[str, Any] | None = None, program: str = ADDER
) -> Coached:
    (folder / "adder.py").write_text(program)
    async with ScriptedServer(Script(function="adder.py:reply", folder=str(folder))) as server:
        config = settings(folder, server.url, turns=5)
        config = RolloutConfig.model_validate({**config.model_dump(mode="json"), "guidance": guidance or {}})
        room = ScriptedMailroom.scripted(rules(*given), config.lake, "r")
        await run_rollout(config, hooks=Hooks(guidance=room))
    return Coached(folder, room)


async def test_it_goes_back_with_words_once_and_the_agent_chooses_again(home: Path) -> None:
    wrong = {"when": {"action": '"number": ?2'}, "back": {"say": "look again"}, "why": "two is wrong"}
    run = await coached(home, wrong, {"when": {"turn": 1}, "say": "mind the sum"}, {"when": {"turn": 3}, "good": True})
    assert [each.superseded for each in run.attempts] == [True, False], "at its place it may once; two is added again"
    assert (
        run.attempts[0].attributes["back"] | {"turn": 3, "by": "coach", "why": "two is wrong", "kind": "back"}
        == (run.attempts[0].attributes["back"])
    )
    assert run.added() == [("policy", number) for number in range(5)]
    assert [sum(word in text for text in run.words()) for word in ("mind the sum", "look again")] == [1, 1]
    kinds = sorted((each.kind, each.turn) for each in run.said if each.to == run.attempts[1].id)
    assert kinds == [("good", 3)], "turns of the attempt that was left are not judged again"
    assert {(each.verdict, each.reason) for each in run.given if each.attributes["kind"] == "back"} >= {
        ("mask", "two is wrong")
    }


async def test_it_takes_an_action_in_the_place_of_an_earlier_one(home: Path) -> None:
    action = {"name": "add", "arguments": {"number": 40}}
    run = await coached(home, {"when": {"turn": 3}, "back": {"turn": 2, "action": action}})
    assert run.added(0) == [("policy", 0), ("policy", 1), ("policy", 2)]
    assert run.added() == [("policy", 0), ("person", 40), ("policy", 2), ("policy", 3), ("policy", 4)]


async def test_going_back_always_ends_where_the_reason_does(home: Path) -> None:
    action = {"name": "add", "arguments": {"number": 50}}
    rule = {"when": {"action": r'"number": ?[23]\b'}, "back": {"action": action}, "times": 0}
    run = await coached(home, rule)
    assert len(run.attempts) == 3 and [number for _, number in run.added()] == [0, 1, 50, 50, 4]


async def test_one_that_knows_the_way_judges_each_turn_by_what_the_expert_would_do(home: Path) -> None:
    """The environment is asked and left as it is: of the turns behind a wrong one the expert's advice is another."""
    run = await coached(
        home,
        {"when": {"expert": "another"}, "bad": True, "times": 0},
        {"when": {"expert": "same"}, "good": True, "times": 0},
        program=READER,
    )
    (attempt,) = run.attempts
    verdicts = [(each.turn, each.kind) for each in run.said if each.to == attempt.id]
    assert verdicts == [(turn, "bad" if turn == 2 else "good") for turn in range(1, attempt.turns + 1)]
    assert attempt.turns > 2, "a chain has three numbers at least"


def test_beside_a_run_no_expert_can_be_asked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only from within the run") as caught:
        speak(rules({"when": {"expert": "another"}, "bad": True}), str(tmp_path / "lake"), "r", patience=0.1)
    assert "\n" not in str(caught.value)


async def test_it_approves_rejects_and_edits_what_waits(home: Path) -> None:
    sixty = {"name": "add", "arguments": {"number": 60}}
    run = await coached(
        home,
        {"when": {"waits": "every action", "turn": 2}, "reject": True, "why": "not one"},
        {"when": {"waits": "every action", "action": '"number": ?2'}, "edit": sixty},
        {"when": {"waits": "."}, "approve": True, "times": 0},
        guidance={"approve": "all"},
    )
    (last,) = run.attempts
    assert run.added() == [("policy", 0), ("person", 60), ("policy", 3), ("policy", 4)]
    assert run.words() == ["Not done. coach, who watches this run, rejected this action: not one."]
    kinds = [each.kind for each in run.said if each.to == last.id]
    assert kinds == ["approve", "reject", "edit", "approve", "approve"]
    recorded = {(each.attributes["kind"], each.verdict) for each in run.given}
    assert recorded == {("approve", "note"), ("reject", "mask"), ("edit", "mask"), ("edit", "note")}


async def test_what_waits_for_another_reason_is_left_to_somebody_else(home: Path) -> None:
    once = {"when": {"waits": "^delete$"}, "approve": True}
    coach, _ = person(home, once, {"when": {"waits": "send"}, "reject": True})
    assert coach.decide("a", 3, "n3", "rm x", ("matches rm",)) == []
    assert [each.kind for each in coach.decide("a", 3, "n3", "rm x", ("delete",))] == ["approve"]
    assert coach.decide("a", 3, "n3", "rm x", ("delete",)) == [], "it has decided"
    assert coach.decide("a", 4, "n4", "rm y", ("delete",)) == [], "once in a trajectory"
    assert [each.node for each in coach.decide("b", 4, "n5", "rm y", ("delete",))] == ["n5"]
    again, _ = person(home, once)
    assert again.decide("a", 9, "n9", "rm z", ("delete",)) == [], "one that begins again knows how often it has"


async def test_it_forbids_and_allows_again(home: Path) -> None:
    odd = '"number": ?[13]'
    forbid = {"when": {"turn": 0}, "forbid": odd, "why": "nothing odd"}
    run = await coached(home, forbid, {"when": {"turn": 3}, "allow": odd})
    assert run.added() == [("policy", 0), ("policy", 2), ("policy", 3), ("policy", 4)]
    (told,) = run.words()
    assert "coach, who watches this run, forbids" in told and told.endswith("nothing odd.")
    verdicts = {(each.attributes["kind"], each.verdict) for each in run.given}
    assert verdicts == {("forbid", "note"), ("forbid", "mask"), ("allow", "note")}


@pytest.mark.slow
def test_beside_a_run_it_speaks_as_a_person_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SILVA_HOME", str(tmp_path / "home"))
    slow = ADDER.replace(
        "def reply(request):", "import asyncio\n\nasync def reply(request):\n    await asyncio.sleep(0.1)"
    )
    (tmp_path / "adder.py").write_text(slow)
    script = {"by": "coach", "rules": [{"when": {"turn": 1}, "say": "say 7"}]}
    (tmp_path / "script.yaml").write_text(yaml.safe_dump(script))
    lake = str(tmp_path / "lake")

    async def play() -> None:
        async with ScriptedServer(Script(function="adder.py:reply", folder=str(tmp_path))) as server:
            config = settings(tmp_path, server.url, turns=5000)  # until it is told to end
            await run_rollout(config, hooks=Hooks(guidance=Mailroom.of(lake, "r")))

    command = [sys.executable, "-m", "silva.cli.main", "loop", "person", "r", str(tmp_path / "script.yaml")]
    beside = subprocess.Popen(
        [*command, "--lake", lake, "--every", "0.1", "--patience", "200"], stdout=subprocess.PIPE, text=True
    )
    try:
        asyncio.run(play())
        said, _ = beside.communicate(timeout=120)
    finally:
        beside.kill()
    assert "run r has ended: 2 words were said" in said
    with Lake.open(lake, mode="read") as opened:
        assert {each.by for each in opened.supervisions(run_id="r")} == {"coach"}
