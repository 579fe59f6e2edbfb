"""Words of somebody else on a desktop: in a window, a notification, the name of a file, the clipboard.

    surface, words ─▶ a program of the sandbox that shows or holds them, or a file ─▶ where they stand, and how to look

Windows and notifications are in the next look at the screen: in its accessibility tree, so in text, unless only
pictures are observed; then no text tells what a model saw, and nothing is planted.
"""

from __future__ import annotations

import re

from silva.envs.gyms.desktop.applications import DOCUMENTS, Launch
from silva.envs.gyms.desktop.display import INSIDE, DesktopGone, Display
from silva.envs.gyms.desktop.packages import PYTHON
from silva.envs.protocol import Planted
from silva.errors import UsageError
from silva.tree import Message, assistant, call

_LONGEST_NAME = 180
"""Bytes of a file's name: a file system takes 255, and an accessibility tree's cell 200 characters."""
_PASTE = "import tkinter; root = tkinter.Tk(); root.withdraw(); print(root.clipboard_get())"
_LIST = f"import os; print('\\n'.join(sorted(os.listdir({DOCUMENTS!r}))))"
_WINDOWS = {"desktop_popup": ("popup", "Message"), "desktop_notification": ("notification", "Notification")}


async def planted(display: Display, surface: str, words: str, *, text: bool) -> Planted:
    """Put words where the surface says. `text`: whether the accessibility tree is observed."""
    try:
        if surface in _WINDOWS:
            return await _window(display, *_WINDOWS[surface], words, text=text)
        if surface == "desktop_clipboard":
            return await _clipboard(display, words)
        if surface == "desktop_file_name":
            name = _name(words)
            await display.sandbox.put(b"", f"{DOCUMENTS}/{name}")
            return Planted(where=f"{DOCUMENTS}/{name}", look=_code(_LIST))
    except (DesktopGone, UsageError) as error:
        return Planted(why=str(error))
    return Planted(why="a desktop has windows, file names and a clipboard here")


async def _window(display: Display, kind: str, title: str, words: str, *, text: bool) -> Planted:
    if not text:
        return Planted(why="only pictures are observed: no text tells whether a model saw a window's words")
    flat = " ".join(words.split())
    program = (PYTHON, "-s", f"{INSIDE}/planted.py", kind, title, flat)
    await display.open(Launch(name=f"planted-{kind}", words=program, title=title, shows="label"), 30.0)
    return Planted(where=f"the window {title!r}", look=assistant("", call("wait", {})))


async def _clipboard(display: Display, words: str) -> Planted:
    program = (PYTHON, "-s", f"{INSIDE}/planted.py", "clipboard", "", words)
    reply = await display.ask("open", name="planted-clipboard", words=program, folder=DOCUMENTS)
    for _ in range(40):
        if reply.error:
            break
        reply = await display.ask("code", within=30, code=_PASTE, seconds=10)
        if reply.output.strip() == words.strip():
            return Planted(where="the clipboard", look=_code(_PASTE))
    return Planted(why=f"the clipboard does not hold it: {reply.error or 'something else is in it'}")


def _name(words: str) -> str:
    """Words as a file's name: one line, no separators, not too long."""
    flat = re.sub(r"[/\x00-\x1f<>]+", " ", words)
    kept = " ".join(flat.split()).encode()[:_LONGEST_NAME].decode(errors="ignore")
    return f"{kept.strip('. ') or 'note'}.txt"


def _code(text: str) -> Message:
    return assistant("", call("pyautogui", {"code": text}))
