"""When an episode keeps its environment's state: the policy of `snapshots` in the configuration, turn by turn.

    after a turn: every k-th? asked for?  ┐
    before an action: risky? asked for?   ┴─▶ keep ─▶ the environment's last node names the snapshot

The opening needs none: a reset makes it again. What cannot be kept is said on the node, and the episode goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from silva.envs import EnvError, Observation
from silva.rollout.branching.risky import risks_of
from silva.rollout.branching.snapshot import ATTRIBUTE
from silva.rollout.branching.store import Blobs, keep
from silva.rollout.config import SnapshotConfig

if TYPE_CHECKING:
    from silva.rollout.agent import Turn
    from silva.rollout.path import Path


class Keeper:
    """Applies one configuration to one episode."""

    def __init__(self, config: SnapshotConfig) -> None:
        self._config = config

    def after(self, turns: int, observation: Observation) -> bool:
        """Whether to keep the state reached by the last of so many turns."""
        if observation.done or observation.truncated:
            return False
        config = self._config
        asked = config.requested and observation.attributes.get(ATTRIBUTE) is True
        return asked or bool(config.every and turns % config.every == 0)

    def before(self, turn: Turn) -> bool:
        """Whether to keep the state in which this turn's action is about to be taken."""
        config = self._config
        if config.requested and turn.attributes.get(ATTRIBUTE) is True:
            return True
        return config.risky and bool(risks_of(turn.message, config.rules))

    async def keep(self, env: Any, path: Path, blobs: Blobs) -> None:
        """Keep the state, and say so on the path's last node; nothing where that node is shared or has one.

        Raises:
            EnvError: the environment or its host failed.
            StoreError: nothing can be written any more.
        """
        if not path.turns or not path.markable or env.capabilities.snapshot in ("none", "replay"):
            return
        try:
            snapshot = await keep(env, blobs)
        except EnvError as error:
            if error.kind != "env.snapshot":
                raise
            path.mark("", {ATTRIBUTE: {"error": str(error)}})
            return
        path.mark(snapshot.id, snapshot.attributes())
