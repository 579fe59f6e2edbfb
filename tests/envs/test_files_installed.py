"""The files gym on real files: its expert, snapshots, what each tool says, bad files.

Slow: needs `silva envs install files` and, for Python, a sandbox (skipped in one line where they are not).
"""

import json

import pytest

from silva.envs import HostPool, Registry
from silva.envs.check import check
from silva.errors import MissingError
from silva.sandbox.system import probe
from silva.tree import Task, assistant, call

pytestmark = pytest.mark.slow

SCENE = {
    "kind": "scene",
    "size": [300, 200],
    "things": [
        {"shape": shape, "colour": colour, "at": [40 + 50 * place, 60], "size": 20}
        for place, (shape, colour) in enumerate(
            (("circle", "red"), ("square", "blue"), ("triangle", "green"), ("star", "orange"), ("cross", "purple"))
        )
    ],
}
ROWS = [["town", "pieces"], ["Brask", 4], ["Tindle", 7.5]]
FILES = {
    "scene.png": SCENE,
    "sign.png": {"kind": "sign", "lines": ["Open today", ["rope", "12.60"]]},
    "t.xlsx": {"kind": "xlsx", "sheets": {"a": ROWS, "b": [["x"], [1]]}},
    "d.docx": {"kind": "docx", "blocks": [{"heading": "Duties"}, {"text": "Mira leads."}, {"rows": ROWS}]},
    "p.pptx": {"kind": "pptx", "slides": [{"title": "One", "lines": ["text"], "rows": ROWS, "notes": "say 5"}]},
    "f.pdf": {"kind": "pdf", "pages": [["first page"], ["second page", "on 7 May"]]},
    "n.txt": {"kind": "txt", "text": "one\ntwo\n"},
    "bad.pdf": {"kind": "txt", "text": "no PDF"},
    "bad.png": {"kind": "txt", "text": "no picture"},
    "bad.xlsx": {"kind": "base64", "content": "UEsDBAoAAAAAAA=="},
}
SAYS = [
    ("list_files", {}, '"path": "d.docx"'),
    ("read_text", {"path": "n.txt", "first": 2}, "two"),
    ("read_document", {"path": "d.docx"}, "# Duties\nMira leads.\ntown | pieces"),
    ("document_table", {"path": "p.pptx"}, '["Tindle", 7.5]'),
    ("read_slides", {"path": "p.pptx", "number": 1}, '"notes": "say 5"'),
    ("read_pdf", {"path": "f.pdf", "page": 2}, "on 7 May"),
    ("find_text", {"path": "f.pdf", "pattern": "SECOND"}, '"at": 2'),
    ("list_sheets", {"path": "t.xlsx"}, '"sheet": "b"'),
    ("read_table", {"path": "t.xlsx"}, '["Brask", 4]'),
    ("read_cells", {"path": "t.xlsx", "cells": "A2", "sheet": "b"}, "1"),
    ("image_info", {"path": "scene.png"}, '"width": 300'),
    ("ocr", {"path": "sign.png"}, "12.60"),
    ("locate", {"path": "scene.png", "what": "stars"}, '"colour": "orange"'),
    ("count", {"path": "scene.png"}, "5"),
    ("describe_region", {"path": "scene.png", "box": [60, 30, 120, 90]}, "a blue square on white"),
    ("dominant_colour", {"path": "scene.png"}, '"colour": "white"'),
    ("draw_box", {"path": "scene.png", "box": [10, 10, 90, 90], "to": "m.png", "text": "here"}, "m.png"),
    ("crop", {"path": "m.png", "box": [10, 10, 90, 90], "to": "c.png"}, "c.png"),
    ("plot", {"kind": "bar", "labels": ["a", "b"], "values": [1, 2], "to": "plot.png"}, "plot.png"),
    ("solve", {"equations": ["2x + y = 7", "x - y = 2"], "unknowns": ["x", "y"]}, '{"x": 3, "y": 1}'),
    ("search", {"query": "density of cork"}, "240 kilograms"),
    ("write_table", {"path": "w.xlsx", "rows": [["a"], [1]]}, "w.xlsx"),
    ("query_table", {"path": "w.xlsx", "sql": "select a + 1 from t"}, "[[2]]"),
    ("write_document", {"path": "w.docx", "title": "To Mira", "paragraphs": ["Hello."]}, "w.docx"),
    ("find_text", {"path": "w.docx", "pattern": "hello"}, "Hello."),
    ("write_text", {"path": "w.md", "text": "note"}, "w.md"),
    ("read_pdf", {"path": "bad.pdf"}, "error: bad.pdf cannot be read as a PDF"),
    ("count", {"path": "bad.png"}, "error: the picture cannot be read as a picture"),
    ("read_table", {"path": "bad.xlsx"}, "error: bad.xlsx is damaged"),
    ("count", {"path": "scene.png", "what": "dogs"}, "error: what 'dogs'"),
    ("crop", {"path": "scene.png", "box": [0, 0, 999, 9], "to": "x.png"}, "within the picture, which is 300 x 200"),
    ("solve", {"equations": ["x = __import__('os')"], "unknowns": ["x"]}, "error: solve"),
    ("read_cells", {"path": "t.xlsx"}, "error: read_cells needs the argument 'cells'"),
    ("fly", {}, "error: there is no tool 'fly'"),
]


@pytest.fixture
def pool():
    try:
        return HostPool(Registry.load().entry("files"), step_timeout=300)
    except MissingError as error:
        pytest.skip(str(error))


def task(**data) -> Task:
    data = {"files": FILES, "check": {"answer": {"all": [["42"]]}}, **data}
    return Task(id="files/mine", env="files", instruction="?", data=data)


async def test_the_expert_solves_what_the_null_policy_does_not(pool):
    made = await check(Registry.load().entry("files"), n=18)
    assert made.holds and made.tasks == 72 and made.differs == "", made


async def test_each_tool_says_what_stands_in_the_file_or_what_is_wrong(pool):
    async with pool, pool.lease() as env:
        await env.reset(task(), 0)
        made = [call(name, arguments, f"c{place}") for place, (name, arguments, _) in enumerate(SAYS)]
        for (name, _, wanted), one in zip(SAYS, made, strict=True):
            (seen,) = (await env.step(assistant("", one))).messages
            assert wanted in seen.text, (name, seen.text)


@pytest.mark.skipif(bool(probe().problem), reason="no sandboxes here")
async def test_a_state_goes_on_in_another_process_with_its_files_and_names(pool):
    other = HostPool(Registry.load().entry("files"), step_timeout=300)
    async with pool, other, pool.lease() as env, other.lease() as branch:
        await env.reset(task(check={"files": [{"path": "out.txt", "says": ["42"]}]}), 0)
        await env.step(assistant("", call("calculate", {"expression": "6 * 7", "save_as": "found"}, "a")))
        kept = await env.snapshot()
        code = "open('out.txt', 'w').write(str(found))\nresult = [found]"
        (seen,) = (await env.step(assistant("", call("python", {"code": code}, "b")))).messages
        assert json.loads(seen.text.partition("=\n")[2]) == [42]
        assert (await env.step(assistant("written"))).done and (await env.evaluate()).success
        await branch.restore(kept)
        (seen,) = (await branch.step(assistant("", call("read_text", {"path": "out.txt"}, "c")))).messages
        assert "there is no file 'out.txt'" in seen.text
        (seen,) = (
            await branch.step(assistant("", call("python", {"code": "import socket\nresult = found"}, "d")))
        ).messages
        assert seen.text.endswith("42")
        (seen,) = (await branch.step(assistant("", call("python", {"code": "1/0"}, "e")))).messages
        assert seen.text.startswith("error: ") and "ZeroDivisionError" in seen.text
