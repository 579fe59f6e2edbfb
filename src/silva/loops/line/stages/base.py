"""Stage `base`: the weights the line begins with, and the line."""

from __future__ import annotations

import asyncio
from pathlib import Path

from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.config import TINY, LineConfig
from silva.loops.line.head import registry
from silva.loops.line.weights import base_weights
from silva.models.tiny.folder import write_tiny
from silva.rollout.conversations import expert_conversations
from silva.train.registry.weights import base_folder
from silva.tree import Json


def run(loop: Loop[LineConfig], stage: Stage) -> Json:
    """Make or find the base; begin the line with it.

    Raises:
        UsageError: the base cannot be used, or the line began on another.
        MissingError: a package, the environment or the bundled model is not installed.
    """
    config = loop.config
    tiny = config.policy.base == TINY
    folder = Path(base_weights(loop))
    if tiny and not folder.is_dir():
        heard = asyncio.run(
            expert_conversations(
                config.env, form=config.play.agent, split=config.tasks.split, limit=config.policy.tiny_tasks
            )
        )
        write_tiny(folder, heard, config.policy.shape, stage.seed)
    found = base_folder(base_weights(loop))
    name = "" if not tiny else config.line
    named = name or _name(config.policy.base)
    made = registry(loop).begin(config.line, found.path, name=named, keep=tiny, by=config.loop)
    return {"version": made.name, "label": made.base.label}


def _name(base: str) -> str:
    from silva.models.local import MODEL
    from silva.train.config import BUNDLED

    return MODEL if base == BUNDLED else Path(base).resolve().name
