"""`--json` is always JSON: on nothing, and where a command refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from silva.cli.as_json import print_json
from silva.cli.main import run
from silva.lake import Lake
from silva.tree import Run

NOWHERE = "no-such"
REFUSED = [
    ["report", "--lake", "LAKE", "--json"],
    ["report", "--run", NOWHERE, "--lake", "LAKE", "--json"],
    ["report", "--json", "--no-such-option"],
    ["trees", "list", "--lake", "MISSING", "--json"],
    ["trees", "show", NOWHERE, "--lake", "LAKE", "--json"],
    ["lake", "stats", "--lake", "MISSING", "--json"],
    ["curate", "mask", "--run", NOWHERE, "--lake", "LAKE", "--json"],
    ["curate", "agreement", "--run", NOWHERE, "--lake", "LAKE", "--json"],
    ["curate", "rows", "--run", NOWHERE, "--lake", "LAKE", "-o", "OUT", "--json"],
    ["train", "samples", "--run", NOWHERE, "--lake", "LAKE", "-o", "OUT", "--json"],
    ["train", "run", "MISSING", "--json"],
    ["loop", "flywheel", "MISSING", "--json"],
    ["loop", "show", "MISSING", "--json"],
    ["policy", "show", NOWHERE, "--lake", "LAKE", "--json"],
    ["envs", "show", NOWHERE, "--json"],
    ["models", "test", "what:is#this", "--json"],
    ["rollout", "--env", NOWHERE, "--json"],
    ["data", "leaks", "MISSING", "--json"],
]


def asked(words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, object]:
    """What a command answers with in an empty lake, as JSON; a lake of one run that has nothing is `BARE`."""
    with Lake.open(str(folder / "lake")) as lake:
        lake.append_sync([])
    with Lake.open(str(folder / "bare")) as lake:
        lake.append_sync([Run(id="night", started=1.0, status="running")])
    places = {"LAKE": "lake", "BARE": "bare", "MISSING": "missing", "OUT": "out.file"}
    capsys.readouterr()
    code = run([str(folder / places[word]) if word in places else word for word in words])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("words", REFUSED, ids=lambda words: " ".join(words[:3]))
def test_a_refusal_is_an_object_that_says_why(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = asked(words, tmp_path, capsys)
    assert code != 0
    assert isinstance(said, dict) and said["error"] and said["code"] == code


@pytest.mark.parametrize(
    "words",
    [
        ["trees", "list", "--lake", "BARE", "--json"],
        ["report", "--lake", "BARE", "--json"],
        ["lake", "stats", "--lake", "BARE", "--json"],
        ["lake", "doctor", "--lake", "BARE", "--json"],
        ["envs", "list", "--json"],
        ["guide", "list", "night", "--lake", "BARE", "--json"],
        ["policy", "list", "--lake", "BARE", "--json"],
        ["sandbox", "ps", "--json"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_nothing_is_said_as_json(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = asked(words, tmp_path, capsys)
    assert code == 0 and isinstance(said, dict | list)


def test_a_number_that_is_none_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"loss": float("nan"), "most": float("inf"), "where": Path("a")})
    assert json.loads(capsys.readouterr().out) == {"loss": None, "most": None, "where": "a"}
