"""Tasks in the editor and the file manager."""

from __future__ import annotations

from hashlib import sha256

from silva.envs.gyms.desktop.applications import editor, files
from silva.envs.gyms.desktop.moves import click, code, keys, pause, seen, window, write
from silva.envs.gyms.desktop.task import DesktopTask, Evidence

_LIST = "milk\neggs\nflour\n"
_INVOICES = {f"invoice-{number}.txt": f"Invoice {number}: {10 * number} pounds\n".encode() for number in (17, 21, 34)}
_OTHERS = {"invoicing-rules.txt": b"Invoices are filed by their number.\n", "picnic.txt": b"Bring plates.\n"}
_FILED = {"Invoices/invoice-9.txt": b"Invoice 9: 90 pounds\n"}


def digests(contents: dict[str, bytes]) -> dict[str, str]:
    """What `Evidence.files` says of files with these contents."""
    return {path: sha256(content).hexdigest() for path, content in contents.items()}


async def _listed(evidence: Evidence) -> bool:
    written = await evidence.text("shopping.txt")
    return await evidence.text("list.txt") == _LIST and (written or "").rstrip("\n") == f"{_LIST}bread"


async def _filed(evidence: Evidence) -> bool:
    moved = {f"Invoices/{name}": content for name, content in _INVOICES.items()}
    return await evidence.files() == digests({**_OTHERS, **_FILED, **moved})


FILING = (
    DesktopTask(
        name="editor-list",
        wish="list.txt is open in the editor. Add a line with bread at its end, and save the result as shopping.txt in "
        "the same folder; list.txt itself stays as it is.",
        tags=("editor",),
        files=lambda: {"list.txt": _LIST.encode()},
        launches=(editor("list.txt"),),
        moves=(
            keys("ctrl", "end", when=seen("text", text="flour")),
            write("bread\n"),
            keys("ctrl", "shift", "s"),
            keys("ctrl", "a", when=window("Save As")),
            write("/home/agent/Documents/shopping.txt"),
            click(seen("push-button", "Save", exactly=True, window="Save As")),
            pause(0.5, when=window("shopping.txt")),
        ),
        done=_listed,
    ),
    DesktopTask(
        name="files-invoices",
        wish="The file manager shows Documents. Move every invoice (invoice-*.txt) into the folder Invoices, and "
        "nothing else.",
        tags=("files",),
        files=lambda: {**_INVOICES, **_OTHERS, **_FILED},
        launches=(files(),),
        moves=(
            click(seen("table-cell", "invoice-17.txt")),
            code("pyautogui.keyDown('ctrl')", when=seen("table-cell", "invoice-21.txt")),
            click(seen("table-cell", "invoice-21.txt")),
            click(seen("table-cell", "invoice-34.txt")),
            code("pyautogui.keyUp('ctrl')"),
            keys("ctrl", "x"),
            click(seen("table-cell", "Invoices", exactly=True), tool="double_click"),
            keys("ctrl", "v", when=seen("table-cell", "invoice-9.txt")),
            pause(0.5, when=seen("table-cell", "invoice-34.txt")),
        ),
        done=_filed,
    ),
)
