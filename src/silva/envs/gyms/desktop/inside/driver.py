"""Holds a desktop, in its sandbox: X server, bus, window manager, applications; does what Silva asks over one socket.

    driver.py NAME PORT WIDTH HEIGHT ─▶ Xtigervnc ─▶ dbus, AT-SPI ─▶ openbox ─▶ connects to 127.0.0.1:PORT ─▶ serves

    act · code · look (settle, picture, elements, windows) · open · watch_files · news

It connects before anything else runs, so nothing in the sandbox can take its place, and is not dumpable, so nothing can
read its memory or its files. An agent's code may still kill it: then the desktop has ended, and Silva is told so.

For a checkpoint of all that runs it is asked to part: no connection leads out of the sandbox then. Afterwards, there
and in every branch, it connects again and proves that it is the one that was told the key.
"""

from __future__ import annotations

import contextlib
import ctypes
import hmac
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import wire
from helper import Helper

RUNTIME = Path("/tmp/.desktop")
"""Sockets of the desktop: the bus, and `vnc`, where the screen can be looked at."""
_START_SECONDS = 60.0
_TRIES = 6000
_BETWEEN_TRIES = 0.02
"""Tries are counted, not timed: between a checkpoint and going back to it the clock may have gone on for days."""
_PR_SET_DUMPABLE = 4


class Driver:
    """The desktop and everything started for it."""

    def __init__(self, name: str, width: int, height: int) -> None:
        self._held: dict[str, subprocess.Popen[bytes]] = {}
        self._applications: dict[subprocess.Popen[bytes], str] = {}
        self._ended: list[dict[str, Any]] = []
        self._coder = Helper("coder.py")
        self._tree = Helper("tree.py")
        home = Path.home()
        _cleared(home)
        RUNTIME.mkdir(mode=0o700)
        (home / "Documents").mkdir(exist_ok=True)
        (home / ".Xauthority").touch()
        environ = {
            "XDG_RUNTIME_DIR": str(RUNTIME),
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={RUNTIME}/bus",
            "XAUTHORITY": str(home / ".Xauthority"),
            "XDG_CURRENT_DESKTOP": "Openbox",
            "GSETTINGS_BACKEND": "memory",
            "GDK_BACKEND": "x11",
            "ACCESSIBILITY_ENABLED": "1",
            "SAL_USE_VCLPLUGIN": "gtk3",
            "TZ": "UTC",
        }
        os.environ.update(environ)
        os.environ["DISPLAY"] = self._screen_begun(name, width, height)
        bus = ["dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address=unix:path={RUNTIME}/bus"]
        self._hold(bus)
        self._hold(["openbox", "--sm-disable"])
        _until(_bus_answers, "the bus")
        self._hold(["/usr/libexec/at-spi-bus-launcher", "--launch-immediately", "--a11y=1"])
        import hands
        from screen import Screen
        from watch import Watch
        from windows import Windows

        self._hands = hands
        self._screen = Screen()
        self._watch = Watch()
        self._windows = Windows()
        _until(self._windows.managed, "the window manager")
        _until_accessible(environ["DBUS_SESSION_BUS_ADDRESS"])

    def _screen_begun(self, name: str, width: int, height: int) -> str:
        reading, writing = os.pipe()
        words = ["Xtigervnc", "-desktop", name, "-geometry", f"{width}x{height}", "-depth", "24"]
        words += ["-displayfd", str(writing), "-nolisten", "tcp", "-rfbport", "-1", "-rfbunixpath", f"{RUNTIME}/vnc"]
        words += ["-SecurityTypes", "None", "-AlwaysShared", "-AcceptSetDesktopSize=0", "-dpi", "96", "-s", "0"]
        self._hold(words, (writing,))
        os.close(writing)
        with os.fdopen(reading) as said:
            number = said.readline().strip()
        if not number:
            raise RuntimeError(f"the X server did not start: {_last(RUNTIME / 'Xtigervnc.log')}")
        return f":{number}"

    def _hold(self, words: list[str], keep: tuple[int, ...] = ()) -> None:
        name = Path(words[0]).name
        with (RUNTIME / f"{name}.log").open("wb") as log:
            self._held[name] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=keep)

    def do(self, asked: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Carry out one request; an error of it is said in the reply."""
        blob = b""
        try:
            said = getattr(self, f"_{asked.pop('do')}")(**asked)
            if isinstance(said, tuple):
                said, blob = said
        except Exception as error:  # noqa: BLE001 - pyautogui, X and AT-SPI raise what they like; Silva is told
            said = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        self._bury()
        said |= {**self._watch.seen(), "ended": self._ended}
        self._ended = []
        return said, blob

    def _act(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self._hands.act(name, arguments)
        return {}

    def _code(self, code: str, seconds: float) -> dict[str, Any]:
        said = self._coder.ask({"code": code, "seconds": seconds}, seconds + 10)
        return said or {"exit": -9, "output": "the code ended the process that ran it", "late": False}

    def _look(self, still: float, most: float, every: int, elements: int, seconds: float, until: str = "") -> Any:
        """`still`, `most`: see Screen.settle. `every` 0: no picture. `elements` 0: no tree; `until`: see Tree."""
        self._windows.wake()
        said: dict[str, Any] = {"settled": self._screen.settle(still, most) if most else 0.0}
        said["windows"] = self._windows.titles()
        if elements:
            read = self._tree.ask({"most": elements, "seconds": seconds, "until": until}, seconds + 2)
            said |= read or {"elements": [], "whole": False}
        if not every:
            return said
        picture, said["width"], said["height"] = self._screen.picture(every)
        return said, picture

    def _open(self, name: str, words: list[str], folder: str) -> dict[str, Any]:
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with (RUNTIME / f"application-{name}.log").open("ab") as log:
            began = subprocess.Popen(
                words, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ, start_new_session=True
            )
        self._applications[began] = name
        return {"pid": began.pid}

    def _news(self) -> dict[str, Any]:
        return {}

    def _watch_files(self, paths: list[str], expected: list[str]) -> dict[str, Any]:
        for path in paths:
            self._watch.add(path)
        for path in expected:
            self._watch.expect(path)
        return {}

    def _bury(self) -> None:
        for name, process in self._held.items():
            if process.poll() is not None:
                raise Gone(" ".join([f"{name} has ended", _last(RUNTIME / f"{name}.log")]).rstrip())
        for process, name in list(self._applications.items()):
            code = process.poll()
            if code is not None:
                del self._applications[process]
                self._ended.append({"name": name, "code": code, "said": _last(RUNTIME / f"application-{name}.log")})


class Gone(Exception):
    """What every desktop needs has ended, so this one has."""


def _cleared(home: Path) -> None:
    """Take away what programs of a desktop before left that would keep the same ones from starting: sockets and locks,
    where the files are those of a checkpoint."""
    shutil.rmtree(RUNTIME, ignore_errors=True)
    places = (
        (home, ".config/chromium/Singleton*"),
        (home, ".config/libreoffice/*/.lock"),
        (home, "Documents/.~lock.*#"),
    )
    for folder, pattern in (*places, (Path("/tmp"), ".X*-lock"), (Path("/tmp"), ".X11-unix/X*")):
        for stale in folder.glob(pattern):
            stale.unlink()


def _until(there: Any, what: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not there():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not come up within {_START_SECONDS:g} s")
        time.sleep(0.005)


def _bus_answers() -> bool:
    """Whether one can connect. Its socket's file is there a moment before it listens."""
    with socket.socket(socket.AF_UNIX) as trial, contextlib.suppress(OSError):
        trial.connect(str(RUNTIME / "bus"))
        return True
    return False


def _until_accessible(address: str) -> None:
    """Wait for the accessibility bus to have its name: an application that asked earlier would have the bus start a
    second launcher, and whichever of the two came late would end."""
    from gi.repository import Gio, GLib

    kind = Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT | Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION
    bus = Gio.DBusConnection.new_for_address_sync(address, kind, None, None)
    name = GLib.Variant("(s)", ("org.a11y.Bus",))
    words = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "NameHasOwner", name)
    _until(lambda: bus.call_sync(*words, None, Gio.DBusCallFlags.NONE, -1, None)[0], "the accessibility bus")
    bus.close_sync(None)


def _last(log: Path) -> str:
    try:
        lines = [line.replace("(EE)", "").strip() for line in log.read_text(errors="replace").splitlines()]
    except OSError:
        return ""
    lines = [line for line in lines if line]
    return lines[-1][:200] if lines else ""


def main(name: str, port: int, width: int, height: int) -> int:
    """Serve until Silva goes."""
    channel = socket.create_connection(("127.0.0.1", port))
    channel.set_inheritable(False)
    channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        driver = Driver(name, width, height)
    except Exception as error:  # noqa: BLE001 - whatever keeps a desktop from starting is told
        wire.send(channel, {"error": f"{type(error).__name__}: {error}"})
        return 1
    wire.send(channel, {"display": os.environ["DISPLAY"]})
    while (asked := wire.receive(channel)) is not None:
        if asked["do"] == "part":
            wire.send(channel, {})
            channel.close()
            channel = _met_again(port, bytes.fromhex(asked["key"]))
            continue
        try:
            said, blob = driver.do(asked)
        except Gone as gone:
            wire.send(channel, {"gone": str(gone)})
            return 1
        wire.send(channel, said, blob)
    return 0


def _met_again(port: int, key: bytes) -> socket.socket:
    """A connection to Silva, which asks for a proof. Raises OSError: there is nobody."""
    for _ in range(_TRIES):
        with contextlib.suppress(OSError, ValueError):
            channel = socket.create_connection(("127.0.0.1", port), timeout=2.0)
            channel.set_inheritable(False)
            asked = wire.receive(channel)
            if asked is not None:
                wire.send(channel, {"output": hmac.new(key, asked["challenge"].encode(), "sha256").hexdigest()})
                channel.settimeout(None)
                channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return channel
            channel.close()
        time.sleep(_BETWEEN_TRIES)
    raise OSError("nobody has asked for this desktop again")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:5])))
