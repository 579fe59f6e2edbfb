"""Registers the terminal gym: `terminal` plays tasks of Silva's own, `terminal/FOLDER` those of a folder."""

from __future__ import annotations

from silva.envs.gyms.bridge_name import folder_of
from silva.envs.protocol import EnvironmentEntry

PREFIX = "terminal/"

_REQUIREMENTS = (
    "lxml==6.1.3",
    "pillow==13.0.0",
    "platformdirs==4.14.7",
    "pypdf==7.1.0",
    "python-docx==1.2.0",
    "python-pptx==1.0.2",
    "tree-sitter==0.26.1",
    "tree-sitter-bash==0.25.1",
    "typing_extensions==4.16.0",
    "xlsxwriter==3.3.1",
)


def resolve(name: str) -> EnvironmentEntry | None:
    """The entry for `terminal/<folder>`, a folder of Harbor task folders or one of them; None for any other name.

    Raises:
        UsageError: there is no such folder.
    """
    folder = folder_of(name, PREFIX)
    if folder is None:
        return None
    return _entry(name, f"{name}={folder}", f"terminal tasks of {name.removeprefix(PREFIX)}")


def _entry(name: str, attribute: str, summary: str) -> EnvironmentEntry:
    return EnvironmentEntry(
        name=name,
        target=f"silva.envs.gyms.terminal.environment:{attribute}",
        summary=summary,
        requirements=_REQUIREMENTS,
        licence="Apache-2.0",
        source="Silva",
        sample=10,
    )


ENTRY = _entry(
    "terminal", "Terminal", "ten tasks in a shell, in a sandbox; Harbor tasks of your own as terminal/FOLDER"
)
