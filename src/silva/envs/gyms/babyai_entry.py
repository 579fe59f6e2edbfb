"""Registers `babyai`."""

from silva.envs.protocol import EnvironmentEntry

ENTRIES = [
    EnvironmentEntry(
        name="babyai",
        target="silva.envs.gyms.babyai:BabyAI",
        summary="BabyAI's grid worlds told in words: go to, open, pick up, put next, unlock",
        requirements=("minigrid==3.2.0", "gymnasium==1.4.0", "numpy==2.4.6", "pygame-ce==2.5.8"),
        licence="Apache-2.0",
        source="https://github.com/Farama-Foundation/Minigrid",
        splits=("test", "train"),
        sample=50,
    )
]
