"""Registers ScienceWorld."""

from __future__ import annotations

from silva.envs.protocol import EnvironmentEntry

ENTRIES: tuple[EnvironmentEntry, ...] = (
    EnvironmentEntry(
        name="scienceworld",
        target="silva.envs.gyms.scienceworld:ScienceWorld",
        summary="ScienceWorld: thirty kinds of science experiment in a text house, 7,207 variations (needs Java 17)",
        requirements=("scienceworld==1.2.3", "py4j==0.10.9.9"),
        licence="Apache-2.0",
        source="https://github.com/allenai/ScienceWorld",
        splits=("test", "dev", "train"),
        sample=12,
    ),
)
