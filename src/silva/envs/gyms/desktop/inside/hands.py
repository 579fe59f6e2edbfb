"""The structured actions, by pyautogui. Arguments come checked."""

from __future__ import annotations

import subprocess
import time
from typing import Any

import pyautogui

pyautogui.FAILSAFE = False
pyautogui.PAUSE = 0.02
_KEY_SECONDS = 0.008


def act(name: str, arguments: dict[str, Any]) -> None:
    """Carry out one action. Raises whatever pyautogui raises, subprocess.SubprocessError."""
    globals()[f"_{name}"](**arguments)


def _move_to(x: float, y: float) -> None:
    pyautogui.moveTo(x, y)


def _click(x: float | None = None, y: float | None = None, button: str = "left", num_clicks: int = 1) -> None:
    pyautogui.click(x, y, clicks=num_clicks, interval=0.05, button=button)


def _mouse_down(button: str = "left") -> None:
    pyautogui.mouseDown(button=button)


def _mouse_up(button: str = "left") -> None:
    pyautogui.mouseUp(button=button)


def _right_click(x: float | None = None, y: float | None = None) -> None:
    pyautogui.rightClick(x, y)


def _double_click(x: float | None = None, y: float | None = None) -> None:
    pyautogui.click(x, y, clicks=2, interval=0.08)


def _drag_to(x: float, y: float) -> None:
    # Toolkits begin a drag after some motion with the button held, and drop where the pointer has rested.
    pyautogui.mouseDown()
    pyautogui.moveRel(4, 4, duration=0.05)
    pyautogui.moveTo(x, y, duration=0.4)
    time.sleep(0.1)
    pyautogui.mouseUp()


def _scroll(dx: int = 0, dy: int = 0) -> None:
    if dy:
        pyautogui.vscroll(dy)
    if dx:
        pyautogui.hscroll(dx)


def _typing(text: str) -> None:
    if text.isascii():
        pyautogui.write(text, interval=_KEY_SECONDS)
    else:  # what is on no key of this keyboard
        subprocess.run(["xdotool", "type", "--delay", "20", "--", text], check=True, timeout=60)


def _press(key: str) -> None:
    pyautogui.press(key)


def _key_down(key: str) -> None:
    pyautogui.keyDown(key)


def _key_up(key: str) -> None:
    pyautogui.keyUp(key)


def _hotkey(keys: list[str]) -> None:
    pyautogui.hotkey(*keys, interval=0.02)
