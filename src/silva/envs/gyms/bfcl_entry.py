"""Registers BFCL multi-turn."""

from __future__ import annotations

from silva.envs.protocol import EnvironmentEntry

ENTRIES: tuple[EnvironmentEntry, ...] = (
    EnvironmentEntry(
        name="bfcl",
        target="silva.envs.gyms.bfcl.environment:Bfcl",
        summary="BFCL multi-turn function calling: 800 tasks over eight simulated services",
        requirements=("mpmath==1.3.0",),
        no_deps=("bfcl-eval==2026.3.23",),
        licence="Apache-2.0",
        source="https://github.com/ShishirPatil/gorilla/tree/main/berkeley-function-call-leaderboard",
        splits=("test", "base", "miss_func", "miss_param", "long_context"),
        expert=1.0,
        null=0.0,
        sample=40,
    ),
)
