"""Skills: distilled from siblings that ended differently, kept only where a trial gains, given as memory's words."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from silva.cli.main import run as silva
from silva.curate.rows import read
from silva.curate.skills import contrasts
from silva.errors import UsageError
from silva.lake import Lake
from silva.models.embedding import open_embedder
from silva.rollout.skills import Bank, Retrieval, Skill
from silva.tree import Author, Trajectory

HOME = Path(__file__).parents[3] / "examples" / "skills"
sys.path.insert(0, str(HOME))
from houses import levers  # noqa: E402

ENV = f"{HOME / 'houses.py'}:Houses"
MODEL = f"scripted:{Path(__file__).parent / 'heeding.yaml'}"
PLAY = ["rollout", "--env", ENV, "--model", MODEL]
LEARN = [f"houses/{house}-{thing}-anna" for house in ("cacao", "ebony") for thing in ("lamp", "rope", "cup")]
NEW = [f"houses/{house}-{thing}-ben" for house in ("cacao", "ebony", "cork") for thing in ("coat", "drum")]


def _tasks(names: Sequence[str]) -> list[str]:
    return [word for name in names for word in ("--task", name)]


def _played(lake: str, run: str) -> list[Trajectory]:
    with Lake.open(lake, mode="read") as opened:
        return opened.trajectories(run_id=run)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A lake with six attempts at three errands in each of two houses, by a model that guesses."""
    lake = str(tmp_path_factory.mktemp("skills") / "lake")
    more = ["--group", "6", "--split", "test", "--run", "dev", "--lake", lake]
    assert silva([*PLAY, *_tasks(LEARN), *more]) == 0
    return lake


@pytest.fixture
def bank(tmp_path: Path, lake: str) -> Path:
    """A bank distilled from them."""
    assert silva(["skills", "distil", "dev", "--lake", lake, "-o", str(tmp_path / "bank")]) == 0
    return tmp_path / "bank"


def test_one_skill_a_house_says_its_lever_and_warns_of_the_alarm(bank: Path, lake: str) -> None:
    found = {skill.says.lower(): skill for skill in Bank(bank)}
    assert set(found) == {"cacao", "ebony"}
    for house, skill in found.items():
        opens, *alarms = levers(house.title())
        assert f"1. Call `pull` with lever `{opens}`." in skill.body
        assert any(
            f"- Call `pull` with lever `{each}`. Attempts that did ended unsafe." in skill.body for each in alarms
        )
        assert skill.evidence == 1 or "lamp" not in skill.description, "what is one task's own is left out"
        assert skill.status == "candidate" and set(skill.tasks) <= set(LEARN)
    played = {each.id: each for each in _played(lake, "dev")}
    for contrast in contrasts(read("dev", lake=lake)):
        better, worse = played[contrast.better_id], played[contrast.worse_id]
        assert better.task_id == worse.task_id and better.outcome.score == 1
        assert (better.outcome.safety, better.outcome.score) > (worse.outcome.safety, worse.outcome.score)


def test_distilling_again_adds_nothing_and_new_words_are_a_new_version(bank: Path, lake: str) -> None:
    before = {path: path.read_text() for path in bank.rglob("*.md")}
    assert silva(["skills", "distil", "dev", "--lake", lake, "-o", str(bank)]) == 0
    assert {path: path.read_text() for path in bank.rglob("*.md")} == before
    name = next(iter(Bank(bank))).name
    assert silva(["skills", "retire", str(bank), name, "--why", "the lever broke"]) == 0
    opened = Bank(bank)
    changed = Skill(name=name, description="of another kind", body="Do nothing.")
    assert opened.put(changed).version == 2
    assert [(each.version, each.status) for each in opened.versions(name)] == [(1, "retired"), (2, "candidate")]


def test_a_trial_keeps_what_gains_on_other_tasks_and_rejects_what_does_not(
    bank: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = next(skill for skill in Bank(bank) if skill.says == "Cacao")
    wrong = next(lever for lever in ("red", "green", "blue", "white") if lever not in levers("Cork"))
    body = re.sub(r"lever `\w+`", f"lever `{wrong}`", right.body, count=1).replace("Cacao", "Cork")
    Bank(bank).put(Skill(name="misled", description='House "Cork": bring "…"', body=body, says="Cork"))
    file = tmp_path / "trial.yaml"
    rollout = {"env": [ENV], "model": MODEL, "run": "trial", "tasks": {"split": "test", "ids": NEW}}
    file.write_text(yaml.safe_dump({"rollout": {**rollout, "group": 6}}))
    capsys.readouterr()
    assert (
        silva([*PLAY, *_tasks(NEW[:1]), "--split", "test", "--lake", str(tmp_path / "other"), "--skills", str(bank)])
        == 0
    )
    assert "is kept, so none is given" in capsys.readouterr().err
    monkeypatch.setenv("SILVA_LAKE", str(tmp_path / "fresh"))  # which the trial makes
    names = ["--only", "misled", "--only", right.name]
    assert silva(["skills", "trial", str(bank), str(file), *names, "--json"]) == 0
    done = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert done["misled"]["status"] == "rejected" and "gained" in done["misled"]["why"]
    assert done[right.name]["status"] == "kept" and done[right.name]["trial"]["gain"] > 0
    assert done[right.name]["trial"]["safety"] > 0 and done[right.name]["trial"]["tasks"] == len(NEW)
    file.write_text(yaml.safe_dump({"rollout": rollout | {"run": "own", "tasks": {"split": "test", "ids": LEARN[:1]}}}))
    assert silva(["skills", "trial", str(bank), str(file), "--only", right.name]) == 2
    assert "stems from every task" in capsys.readouterr().err


def test_what_is_given_is_memorys_and_fits_the_task(bank: Path, lake: str) -> None:
    opened = Bank(bank)
    for skill in opened:
        opened.mark(skill.name, "kept")
    run = ["--split", "test", "--lake", lake, "--skills", str(bank)]
    assert silva([*PLAY, *_tasks(NEW), *run, "--run", f"given-{bank.parent.name}"]) == 0
    for each in _played(lake, f"given-{bank.parent.name}"):
        with Lake.open(lake, mode="read") as reading:
            walk = reading.walk(each)
        told = [node for node in walk if node.author is Author.MEMORY]
        house = each.task_id.split("/")[1].split("-")[0]
        if house == "cork":
            assert not told and "skills" not in each.attributes, "no skill is of this house"
            continue
        (node,) = told
        assert node.message.role == "user" and f"“{house.title()}”" in node.message.text
        assert [given["name"] for given in each.attributes["skills"]] == [
            skill.name for skill in opened if skill.says.lower() == house
        ]
        assert each.outcome.score == 1 and each.outcome.safety == 1


def test_an_index_is_read_on_demand(bank: Path, lake: str, tmp_path: Path) -> None:
    opened = Bank(bank)
    for skill in opened:
        opened.mark(skill.name, "kept")
    name = next(skill.name for skill in opened if skill.says == "Cacao")
    script = {
        "rules": [
            {"when": {"turn": 0}, "reply": {"tool_calls": [{"name": "read_skill", "arguments": {"name": name}}]}},
            {"when": {"turn": 1}, "reply": {"tool_calls": [{"name": "read_skill", "arguments": {"name": "other"}}]}},
        ],
        "otherwise": {"text": "Done."},
    }
    file = tmp_path / "asks.yaml"
    file.write_text(yaml.safe_dump(script))
    run = f"index-{tmp_path.name}"
    more = ["--split", "test", "--lake", lake, "--skills", str(bank), "--run", run, "stages.skills.give=index"]
    assert silva(["rollout", "--env", ENV, "--model", f"scripted:{file}", *_tasks(NEW[:1]), *more]) == 0
    (each,) = _played(lake, run)
    with Lake.open(lake, mode="read") as reading:
        walk = reading.walk(each)
    told = [node.message for node in walk if node.author is Author.MEMORY and node.message.role != "system"]
    index, read_it, no_such = (message.text for message in told)
    assert (
        name in index
        and "## Do" not in index
        and read_it.startswith("## When")
        and "there is no skill other" in no_such
    )
    assert any(tool.name == "read_skill" for node in walk for tool in node.tools or ())


def test_retrieval_abstains_and_its_control_gives_as_many_others() -> None:
    skills = [
        Skill(name="bread", description="baking bread and cakes in an oven", body="b", envs=("kitchen",)),
        Skill(name="knives", description="sharpening kitchen knives", body="k", envs=("kitchen",)),
        Skill(name="cars", description="baking bread in a car", body="c", envs=("garage",)),
    ]
    embedder = open_embedder("hashed")
    found = Retrieval(skills, embedder, top=1, least=0.2).find("kitchen", "please bake bread in the oven")
    assert [each.skill.name for each in found] == ["bread"]
    assert not Retrieval(skills, embedder, least=0.3).find("kitchen", "what is the capital of France?")
    other = Retrieval(skills, embedder, top=1, least=0.2, shuffled=0).find("kitchen", "please bake bread in the oven")
    assert [each.skill.name for each in other] == ["knives"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no front matter", "front matter"),
        ("---\nname: [\n---\nx", "no YAML"),
        ("---\nname: a-skill\n---\nbody", "description"),
        ("---\nname: Not A Name\ndescription: d\n---\nbody", "small letters"),
        ("---\nname: other\ndescription: d\n---\nbody", "they must agree"),
        ("---\nname: a-skill\ndescription: d\n---\n", "its text"),
    ],
)
def test_a_file_that_is_no_skill_is_named(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "a-skill").mkdir()
    (tmp_path / "a-skill" / "SKILL.md").write_text(text)
    with pytest.raises(UsageError, match=says) as refused:
        list(Bank(tmp_path))
    assert "SKILL.md" in str(refused.value) or "skill" in str(refused.value)


def test_a_model_writes_skills_and_garbage_is_told(
    lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good: dict[str, Any] = {
        "name": "pull the lever that opened",
        "description": "In a house whose cupboard was opened before.",
        "when": "the cupboard is shut",
        "do": ["Pull the lever that opened it before."],
        "avoid": ["Other levers."],
    }
    rules = [{"when": {"last": "Cacao"}, "reply": {"text": f"Here: {json.dumps(good)}"}}]
    (tmp_path / "writer.yaml").write_text(
        yaml.safe_dump({"rules": rules, "otherwise": {"text": "I would rather not."}})
    )
    more = ["--lake", lake, "-o", str(tmp_path / "bank"), "--model", f"scripted:{tmp_path / 'writer.yaml'}"]
    capsys.readouterr()
    assert silva(["skills", "distil", "dev", *more, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (skill,) = Bank(tmp_path / "bank")
    assert skill.name == "pull-the-lever-that-opened" and skill.by == "scripted" and "- Other levers." in skill.body
    assert told["usage"]["prompt_tokens"] > 0 and any("ebony" in each for each in told["skipped"])
