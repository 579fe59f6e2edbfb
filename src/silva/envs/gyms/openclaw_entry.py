"""Registers the OpenClaw gym: `openclaw` plays tasks of Silva's own, `openclaw/FOLDER` those of a folder."""

from __future__ import annotations

from silva.envs.gyms.bridge_name import folder_of
from silva.envs.protocol import EnvironmentEntry

PREFIX = "openclaw/"
NODE = ("node@26.10.0", "openclaw@2026.9.6")
_REQUIREMENTS = (
    "aiosmtpd==1.4.6",
    "platformdirs==4.14.7",
    "pyyaml==6.0.3",
    "radicale==3.9.0",
    "typing_extensions==4.16.0",
)


def resolve(name: str) -> EnvironmentEntry | None:
    """The entry for `openclaw/<folder>`, a folder of task files in PinchBench's form; None for any other name.

    Raises:
        UsageError: there is no such folder.
    """
    folder = folder_of(name, PREFIX)
    if folder is None:
        return None
    return _entry(name, f"{name}={folder}", f"OpenClaw on the tasks of {name.removeprefix(PREFIX)}", expert=None)


def _entry(name: str, attribute: str, summary: str, expert: float | None) -> EnvironmentEntry:
    return EnvironmentEntry(
        name=name,
        target=f"silva.envs.gyms.openclaw.environment:{attribute}",
        summary=summary,
        requirements=_REQUIREMENTS,
        node=NODE,
        licence="Apache-2.0 (OpenClaw: MIT)",
        source="Silva; https://github.com/openclaw/openclaw",
        expert=expert,
        null=None if expert is None else 0.0,
        sample=4,
        memory_mb=16384,  # what node reserves for each of its threads counts as its host's
        patience=600.0,  # OpenClaw takes its time to start, four at once on a busy machine
    )


ENTRY = _entry(
    "openclaw",
    "OpenClawGym",
    "the real OpenClaw at work with mail, calendar, chat, web and packages: twelve errands, eight traps",
    expert=1.0,
)
