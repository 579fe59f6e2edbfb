"""Registers `desktop`."""

from silva.envs.protocol import EnvironmentEntry

# Without dependencies: these are all there are, but for PIL, tkinter and gi, which Debian builds for the Python inside.
_NO_DEPS = (
    "openpyxl==3.1.5",
    "et_xmlfile==2.0.0",
    "platformdirs==4.14.7",
    "typing_extensions==4.16.0",
    "mss==10.2.0",
    "isal==1.9.1",
    "python3-xlib==0.15",
    "PyMsgBox==2.0.1",
    "pytweening==1.2.0",
    "PyScreeze==1.0.1",
    "pyperclip==1.11.0",
    "MouseInfo==0.1.3",
    "PyAutoGUI==0.9.54",
)

ENTRY = EnvironmentEntry(
    name="desktop",
    target="silva.envs.gyms.desktop.environment:Desktop",
    summary="twelve tasks on a Linux desktop in a sandbox: LibreOffice, editor, files, Chromium; OSWorld's actions",
    no_deps=_NO_DEPS,
    machine="silva.envs.gyms.desktop.packages:check",
    licence="Apache-2.0",
    source="Silva",
    sample=12,
    patience=300.0,  # four desktops at once, each starting an office, on a machine that is busy
)
