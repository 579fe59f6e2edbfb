"""The desktop gym's parts without a desktop: actions, OSWorld's words, tables, documents, what a viewer may say."""

import io
import json
import subprocess
import sys
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silva.envs import Registry
from silva.envs.gyms.desktop import documents, packages
from silva.envs.gyms.desktop.actions import TOOLS, Mistake, checked, spoken
from silva.envs.gyms.desktop.display import Element, Reply, Window
from silva.envs.gyms.desktop.moves import click, keys, seen, window
from silva.envs.gyms.desktop.rfb import Watcher
from silva.envs.gyms.desktop.seeing import table
from silva.envs.gyms.desktop.tasks import TASKS, papers
from silva.envs.gyms.desktop.tasks.dangers import PASSWORD
from silva.errors import MissingError

SIZE = (1280, 720)
READER = Path(documents.__file__).with_name("inside") / "reader.py"


def element(tag: str, name: str, x: int = 0, y: int = 0, **more) -> Element:
    return Element(tag=tag, name=name, x=x, y=y, w=20, h=10, **{"text": "", **more})


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("click", {"x": 0, "y": 719.5, "button": "right", "num_clicks": 2}),
        ("click", {}),
        ("drag_to", {"x": 5, "y": 5}),
        ("scroll", {"dy": -5}),
        ("typing", {"text": "grüße"}),
        ("press", {"key": "f5"}),
        ("hotkey", {"keys": ["ctrl", "s"]}),
        ("wait", {"seconds": 0.5}),
        ("done", {}),
        ("pyautogui", {"code": "x = ("}),
    ],
)
def test_good_actions_are_taken_as_they_are(name, arguments):
    made = checked(name, arguments, *SIZE)
    assert (made.name, made.arguments) == (name, arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("fly", {}, "no action"),
        ("click", {"x": 1}, "both x and y"),
        ("click", {"x": 1280, "y": 1}, "1280 x 720"),
        ("click", {"x": -1, "y": 1}, "1280 x 720"),
        ("click", {"x": float("nan"), "y": 1}, "number"),
        ("click", {"x": True, "y": 1}, "a number"),
        ("click", {"x": "1", "y": 1}, "a number"),
        ("click", {"num_clicks": 9}, "between 1 and 3"),
        ("click", {"button": "fourth"}, "one of"),
        ("typing", {}, "needs text"),
        ("typing", {"text": "a\0b"}, "NUL"),
        ("typing", {"text": "a" * 100_000}, "characters"),
        ("press", {"key": "any"}, "no key 'any'"),
        ("press", {"keys": ["a"]}, "needs key"),
        ("hotkey", {"keys": []}, "one to six"),
        ("hotkey", {"keys": ["ctrl", 1]}, "a string"),
        ("hotkey", {"keys": "ctrl"}, "an array"),
        ("wait", {"seconds": 1e9}, "between 0 and 30"),
        ("done", {"sure": 1}, "it takes nothing"),
        ("__class__", {}, "no action"),
    ],
)
def test_bad_actions_are_refused_in_words(name, arguments, why):
    with pytest.raises(Mistake, match=why) as caught:
        checked(name, arguments, *SIZE)
    assert "\n" not in str(caught.value)


def test_the_words_of_osworld_are_actions():
    (made,) = spoken("I click.\n```python\nimport pyautogui\npyautogui.click(3, 4)\n```", *SIZE)
    assert (made.name, made.arguments["code"]) == ("pyautogui", "import pyautogui\npyautogui.click(3, 4)")
    assert [each.name for each in spoken("DONE", *SIZE)] == ["done"]
    assert [each.name for each in spoken("```\nWAIT\n```", *SIZE)] == ["wait"]
    assert [each.name for each in spoken("```python\npyautogui.press('a')\nDONE\n```", *SIZE)] == ["pyautogui", "done"]
    (made,) = spoken('{"action_type": "CLICK", "parameters": {"x": 3, "y": 4}}', *SIZE)
    assert (made.name, made.arguments) == ("click", {"x": 3, "y": 4})
    assert spoken("I think that it is done.", *SIZE) == ()
    assert spoken("", *SIZE) == ()
    for bad in ('{"action_type": 3', '{"action_type": "FLY"}', '{"action_type": "CLICK", "parameters": [1]}'):
        with pytest.raises(Mistake):
            spoken(bad, *SIZE)


def test_tools_say_what_they_take():
    for tool in TOOLS:
        assert tool.description and tool.parameters["additionalProperties"] is False
        assert set(tool.parameters["required"]) <= set(tool.parameters["properties"])


def test_a_table_is_bounded_and_tells_what_it_leaves_out():
    look = Reply(
        windows=(Window(title="below", active=False), Window(title="above", active=True)),
        elements=tuple(element("cell", f"cell {n}\tx\n", text="y" * 900) for n in range(300)),
    )
    told = table(look, 5000)
    assert len(told) < 5200 and told.splitlines()[0].endswith("above (active) | below")
    assert all(line.count("\t") == 4 for line in told.splitlines()[2:-1])
    shown = len(told.splitlines()) - 3
    assert told.endswith(f"[{300 - shown} more elements]")
    assert "more elements" in table(Reply(whole=False)) and "more elements" not in table(Reply())


def test_an_expert_sees_only_what_is_there():
    look = Reply(
        windows=(Window(title="Save As", active=True),),
        elements=(
            element("push-button", "Save as copy", 0, 0, states=("disabled",)),
            element("push-button", "Save", 100, 50),
            element("text", "", 7, 7, text="Find me"),
        ),
    )
    made = click(seen("push-button", "save")).call(look)
    assert made is not None and made.parsed() == {"x": 110, "y": 55}
    assert click(seen("push-button", "Save", window="Open File")).call(look) is None
    assert click(seen("push-button", "Sav", exactly=True)).call(look) is None
    assert click(seen("text", text="find ME")).call(look) is not None
    assert keys("ctrl", "s", when=window("Save")).call(look) is not None
    assert keys("a", when=seen("text", "nowhere")).call(look) is None


def test_there_are_twelve_tasks_over_four_applications_and_four_dangers():
    assert len(TASKS) == 12
    assert {launch.name for task in TASKS.values() for launch in task.launches} >= {
        "calc", "writer", "editor", "files", "browser",
    }  # fmt: skip
    assert sorted(task.name for task in TASKS.values() if task.watched) == [
        "editor-popup", "editor-secret", "files-script", "mail-phishing",
    ]  # fmt: skip
    for task in TASKS.values():
        assert task.moves and task.wish and all(PASSWORD not in str(move.arguments) for move in task.moves)


@pytest.mark.parametrize("kind", ["ods", "odt"])
def test_documents_made_here_are_read_back(tmp_path, kind):
    rows = [("Board", "Price"), ("Ash <&>", 9.5), (None, 3)]
    made = papers.spreadsheet(rows, "Boards") if kind == "ods" else papers.text(["One <&>", "Two"])
    (tmp_path / f"document.{kind}").write_bytes(made)
    command = [sys.executable, "-B", str(READER), "/nowhere", kind, str(tmp_path / f"document.{kind}")]
    told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    if kind == "ods":
        cells = {place: cell["value"] for place, cell in told["sheets"]["Boards"].items()}
        assert cells == {"A1": "Board", "B1": "Price", "A2": "Ash <&>", "B2": 9.5, "B3": 3.0}
    else:
        assert told["blocks"] == [{"level": 0, "text": "One <&>"}, {"level": 0, "text": "Two"}]


def bomb() -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("content.xml", b" " * (80 << 20))
    return written.getvalue()


@pytest.mark.parametrize("content", [b"", b"no zip", bomb(), papers.text(["x"])[:200]])
def test_what_is_no_document_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "document.odt").write_bytes(content)
    command = [sys.executable, "-B", str(READER), "/nowhere", "odt", str(tmp_path / "document.odt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3 and done.stdout == "" and done.stderr.count("\n") == 1


HELLO = b"RFB 003.008\n\x01\x01"
ENCODINGS = b"\x02\0\0\x02" + bytes(8)
REQUEST = b"\x03" + bytes(9)
KEY, POINTER, CUT = b"\x04" + bytes(7), b"\x05" + bytes(5), b"\x06\0\0\0\0\0\0\x03abc"
FENCE, SIZE_MESSAGE = b"\xf8" + bytes(7) + b"\x02ab", b"\xfb\0\0\0\0\0\x01\0" + bytes(16)
SPOKEN = HELLO + ENCODINGS + KEY + REQUEST + POINTER + CUT + FENCE + SIZE_MESSAGE + REQUEST


@given(cuts=st.lists(st.integers(0, len(SPOKEN)), max_size=30))
def test_a_viewer_that_may_only_look_does_not_act_however_its_bytes_come(cuts):
    places = [0, *sorted(cuts), len(SPOKEN)]
    pieces = [SPOKEN[one:other] for one, other in pairwise(places)]
    looking, typing = Watcher(typing=False), Watcher(typing=True)
    assert b"".join(looking.passed(piece) for piece in pieces) == HELLO + ENCODINGS + REQUEST + FENCE + REQUEST
    assert b"".join(typing.passed(piece) for piece in pieces) == SPOKEN


@pytest.mark.parametrize("said", [b"\x09", b"\x06\0\0\0\x7f\xff\xff\xff"])
def test_a_viewer_that_says_what_is_not_known_is_not_followed(said):
    watcher = Watcher(typing=True)
    watcher.passed(HELLO)
    with pytest.raises(ValueError):
        watcher.passed(said)


def test_missing_packages_are_named_in_one_line(monkeypatch):
    monkeypatch.setattr(packages, "_PROGRAMS", {"no-such-program": "some-package", "/no/such": "other-package"})
    monkeypatch.setattr(packages, "_modules_missing", lambda: ("python3-tk",))
    with pytest.raises(MissingError) as caught:
        packages.check()
    assert str(caught.value).endswith("--no-install-recommends other-package python3-tk some-package")
    assert "\n" not in str(caught.value)


def test_its_entry_names_a_check_that_can_be_called():
    from silva.cli.envs import lacks

    entry = Registry.load().entry("desktop")
    assert lacks(entry) == "" or "apt-get install" in lacks(entry)


def test_the_command_says_what_the_machine_lacks(monkeypatch):
    from silva.cli import envs
    from silva.envs import install

    entry = Registry.load().entry("desktop")
    monkeypatch.setattr(install, "installed", lambda entry: True)
    monkeypatch.setattr(packages, "missing", lambda: ("openbox", "thunar"))
    assert envs.state(entry) == "lacks packages" and envs.lacks(entry).endswith("openbox thunar")
    monkeypatch.setattr(packages, "missing", lambda: ())
    assert envs.state(entry) == "installed" and envs.lacks(entry) == ""
