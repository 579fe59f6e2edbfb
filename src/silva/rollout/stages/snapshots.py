"""When an episode keeps its environment's state: the policy of `snapshots` in the configuration, turn by turn.

    after a turn: every k-th? asked for?  ┐
    before an action: risky? asked for?   ┴─▶ keep ─▶ the environment's last node names the snapshot

The opening needs none: a reset makes it again. What cannot be kept is said on the node, and the episode goes on.
"""

from __future__ import annotations

from silva.envs import EnvError, Observation
from silva.rollout.agent import Turn
from silva.rollout.config import SnapshotConfig
from silva.rollout.live import Live
from silva.rollout.risks import risks_of
from silva.rollout.snapshots.snapshot import ATTRIBUTE
from silva.rollout.snapshots.store import keep
from silva.rollout.stages.stage import Stage


class Snapshots(Stage):
    """Applies one configuration to one episode."""

    name = "snapshots"

    def __init__(self, config: SnapshotConfig) -> None:
        self._config = config

    async def on_action(self, live: Live, turn: Turn) -> Turn:
        """Keep the state in which a risky action is about to be taken, or one whose turn asks for it."""
        config = self._config
        asked = config.requested and turn.attributes.get(ATTRIBUTE) is True
        if asked or (config.risky and risks_of(turn.message, config.rules)):
            await self._keep(live)
        return turn

    async def after_turn(self, live: Live, observation: Observation) -> None:
        """Keep the state that every k-th turn reached, or one whose observation asks for it."""
        if observation.done or observation.truncated:
            return
        config = self._config
        asked = config.requested and observation.attributes.get(ATTRIBUTE) is True
        if asked or (config.every and live.path.turns % config.every == 0):
            await self._keep(live)

    async def _keep(self, live: Live) -> None:
        """Keep the state, and say so on the path's last node; nothing where that node is shared or has one.

        Raises:
            EnvError: the environment or its host failed.
            StoreError: nothing can be written any more.
        """
        path = live.path
        if not path.turns or not path.markable or live.env.capabilities.snapshot in ("none", "replay"):
            return
        try:
            snapshot = await keep(live.env, live.blobs)
        except EnvError as error:
            if error.kind != "env.snapshot":
                raise
            path.mark("", {ATTRIBUTE: {"error": str(error)}})
            return
        path.mark(snapshot.id, snapshot.attributes())
