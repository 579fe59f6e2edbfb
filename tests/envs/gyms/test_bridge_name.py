"""What follows a bridge's prefix: a place and arguments."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silva.envs import Registry
from silva.envs.gyms.bridge_name import parse
from silva.envs.install import location
from silva.errors import UsageError

KEYS = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
VALUES = st.one_of(st.integers(), st.booleans(), st.none(), st.lists(st.integers(), max_size=3))


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_arguments_come_back_as_they_were_given(arguments):
    text = "".join(f",{key}={json.dumps(value)}" for key, value in arguments.items())
    named = parse(f"folder/file.py@task{text}")
    assert named.place == "folder/file.py@task"
    assert named.arguments == arguments


def test_words_stay_text_and_dots_nest():
    named = parse("module,task.level=3,task.kind=hard,names=a,b c")
    assert named.arguments == {"task": {"level": 3, "kind": "hard"}, "names": "a,b c"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (",level=3", "nothing stands before"),
        ("m,a=1,a=2", "a is given twice"),
        ("m,a=1,a.b=2", "a.b is inside a value"),
    ],
)
def test_bad_arguments_are_told_in_one_line(text, why):
    with pytest.raises(UsageError, match=why) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["inspect", "verifiers", "openenv"])
def test_a_bridge_has_one_environment_for_all_it_plays(name):
    registry = Registry.load()
    entry, other = registry.entry(name), registry.entry(f"{name}/some_module,level=3")
    assert location(entry) == location(other)
    assert other.name == f"{name}/some_module,level=3"
    assert all("==" in pin for pin in (*entry.requirements, *entry.no_deps))
    with pytest.raises(UsageError, match=r"no such file not_there\.py"):
        registry.entry(f"{name}/not_there.py@x")


def test_the_three_bridges_do_not_share_an_environment():
    registry = Registry.load()
    assert len({location(registry.entry(name)) for name in ("inspect", "verifiers", "openenv")}) == 3


def test_tasks_of_inspect_evals_get_that_package_besides():
    entry = Registry.load().entry("inspect/inspect_evals/gsm8k")
    assert any(pin.startswith("inspect-evals==") for pin in entry.requirements)
