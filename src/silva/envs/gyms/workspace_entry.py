"""Registers `workspace`, a folder for agents that are programs."""

from silva.envs.protocol import EnvironmentEntry

ENTRIES = [
    EnvironmentEntry(
        name="workspace",
        target="silva.envs.gyms.workspace:Workspace",
        summary="a folder of files, a wish and a check, for agents that are programs; tasks of your own by --tasks",
        licence="Apache-2.0",
        source="Silva",
        expert=None,
        sample=4,
    )
]
