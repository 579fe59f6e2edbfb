"""What goes wrong without ill will changes how things are said or named, and not what they are."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from playing import play, read

from silva.envs import Observation
from silva.redteam.attack import perturbation
from silva.redteam.perturbation import Moment
from silva.redteam.renaming import renamed, restored
from silva.tree import Tool, assistant, call, tool_result

SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
TOOLS = (Tool(name="send", parameters=SCHEMA), Tool(name="stop", parameters={"type": "object", "properties": {}}))


def shown(kind: str, text: str) -> str:
    show = perturbation(kind).show
    assert show is not None
    seen = show(Observation(messages=(tool_result("c", text, "look"),)), Moment(Random(3)))
    return text if seen is None else seen.messages[0].text


def test_a_layout_changes_and_its_content_stays() -> None:
    value = {"a": [1, {"b": 2, "c": 3}], "d": "x"}
    assert json.loads(shown("layout", json.dumps(value))) == value
    assert list(json.loads(shown("layout", json.dumps(value)))) == ["d", "a"]
    assert shown("layout", "first\n\nsecond\nline") == "second\nline\n\nfirst"


def test_a_sensor_is_off_or_misses_something() -> None:
    seen = shown("sensor", "a ball 7 steps ahead, a door 12 steps left")
    assert "a ball" in seen and "a door" in seen and "7 steps" not in seen and "12 steps" not in seen
    assert len(shown("sensor", "You see a key. You see a box.").split(". ")) == 1


@pytest.mark.parametrize(
    ("tool", "arguments", "stays"),
    [
        ("act", {"action": "move_forward"}, True),
        ("act", {"command": "go north"}, True),
        ("act", {"command": "open door"}, False),
        ("session_run", {"command": "go north"}, False),
        ("act", {"action": 3}, False),
    ],
)
def test_ways_are_blocked_for_those_who_move(tool: str, arguments: dict[str, Any], stays: bool) -> None:
    refuse = perturbation("blocked").refuse
    assert refuse is not None
    assert bool(refuse(Moment(Random(1), action=assistant("", call(tool, arguments))))) is stays


def test_a_call_by_new_names_is_taken_and_one_by_an_old_name_is_told() -> None:
    seen = renamed(Observation(tools=TOOLS)).tools or ()
    assert [tool.name for tool in seen] == ["send_v2", "stop_v2"]
    assert seen[0].parameters["required"] == ["new_to"] and set(seen[0].parameters["properties"]) == {"new_to"}
    taken = restored(assistant("", call("send_v2", {"new_to": "Ada"})), seen)
    assert not isinstance(taken, str) and taken.tool_calls[0].name == "send"
    assert taken.tool_calls[0].parsed() == {"to": "Ada"}
    assert "it is send_v2" in str(restored(assistant("", call("send", {"to": "Ada"})), seen))
    unknown = restored(assistant("", call("fly", {})), seen)
    assert not isinstance(unknown, str) and unknown.tool_calls[0].name == "fly", "the environment answers that itself"


async def test_an_agent_that_goes_by_old_names_is_refused_and_sees_the_new_ones(tmp_path: Path) -> None:
    await play(tmp_path, {"perturb": {"kinds": "renamed"}}, model="sums")
    trajectory, walk, _ = read(tmp_path)
    assert next(node.tools for node in walk if node.tools)[0].name == "add_v2"
    told = [node.message.text for node in walk if node.message.role == "tool"]
    assert told and all("it is add_v2" in text for text in told), told
    assert trajectory.attributes["perturb"]["struck"] == 3
