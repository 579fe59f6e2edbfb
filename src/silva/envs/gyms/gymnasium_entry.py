"""Registers the Gymnasium bridge: three well-known ids by name, any other as `gymnasium/<id>`."""

from __future__ import annotations

from silva.envs.protocol import EnvironmentEntry

PREFIX = "gymnasium/"


def resolve(name: str, summary: str = "", null: float | None = None, tolerance: float = 0.0) -> EnvironmentEntry | None:
    """The entry for `gymnasium/<id>`; None for any other name. Its null floor is not known beforehand."""
    if not name.startswith(PREFIX) or name == PREFIX:
        return None
    env_id = name.removeprefix(PREFIX)
    return EnvironmentEntry(
        name=name,
        target=f"silva.envs.gyms.gymnasium_bridge:{env_id}",
        summary=summary or f"Gymnasium's {env_id}",
        requirements=("gymnasium==1.4.0", "numpy==2.4.6"),
        licence="MIT",
        source="https://github.com/Farama-Foundation/Gymnasium",
        splits=("test", "train"),
        expert=None,
        null=null,
        null_tolerance=tolerance,
    )


ENTRIES = [
    entry
    for entry in (
        resolve("gymnasium/FrozenLake-v1", "a slippery 4 x 4 lake to cross", 0.0),
        resolve("gymnasium/CartPole-v1", "a pole to balance on a cart", 0.02, 0.005),
        resolve("gymnasium/Taxi-v4", "a passenger to fetch and bring", 0.0),
    )
    if entry is not None
]
