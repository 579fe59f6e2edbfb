"""What a desktop needs of the machine, and in which Debian package it is."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

from silva.errors import MissingError

PYTHON = "/usr/bin/python3"
"""The interpreter inside: the system's, for which Debian builds gi, tkinter and PIL."""
CHROMIUM = "/usr/lib/chromium/chromium"
# What each must have, and the package that brings it.
_PROGRAMS = {
    PYTHON: "python3",
    "Xtigervnc": "tigervnc-standalone-server",
    "openbox": "openbox",
    "dbus-daemon": "dbus-daemon",
    "/usr/libexec/at-spi-bus-launcher": "at-spi2-core",
    "xdotool": "xdotool",
    "soffice": "libreoffice-calc",
    "/usr/lib/libreoffice/program/libswlo.so": "libreoffice-writer",
    "/usr/lib/libreoffice/program/libvclplug_gtk3lo.so": "libreoffice-gtk3",
    "mousepad": "mousepad",
    "thunar": "thunar",
    CHROMIUM: "chromium",
}
_MODULES = {
    "import gi; gi.require_version('Atspi', '2.0')": "gir1.2-atspi-2.0",
    "import gi; gi.require_version('Gtk', '3.0')": "gir1.2-gtk-3.0",
    "import gi": "python3-gi",
    "import tkinter": "python3-tk",
    "import PIL": "python3-pil",
}


def missing() -> tuple[str, ...]:
    """The Debian packages that are not here."""
    lacking = {package for program, package in _PROGRAMS.items() if not _there(program)}
    return tuple(sorted(lacking | set(_modules_missing()))) if "python3" not in lacking else tuple(sorted(lacking))


def check() -> None:
    """Find out whether a desktop can be had here.

    Raises:
        MissingError: packages are missing; the line names them, with the command that installs them.
    """
    lacking = missing()
    if lacking:
        raise MissingError(
            f"the desktop needs packages of Debian that are not here: run "
            f"apt-get install --no-install-recommends {' '.join(lacking)}"
        )


def _there(program: str) -> bool:
    return Path(program).exists() if program.startswith("/") else shutil.which(program) is not None


@cache
def _modules_missing() -> tuple[str, ...]:
    script = "\n".join(
        f"try:\n exec({code!r})\nexcept Exception:\n print({package!r})" for code, package in _MODULES.items()
    )
    done = subprocess.run([PYTHON, "-I", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    return tuple(done.stdout.split())
