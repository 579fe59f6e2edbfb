"""Words that were put into an environment's state, put there again where its turns are taken again.

    stage ─▶ env.plant ─▶ the node behind which it was done says so (`planted`) ─▶ resume, replay, branch: plant_again

What is planted is no action, so no stored turn brings it back; the walk remembers it, and whoever takes the walk again
does it at the same place. A snapshot that was kept after it holds it anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from silva.tree import Node

PLANTED = "planted"
"""The attribute of a node behind which words were planted: the `surface`, the `words`, and `where` they stand."""


async def plant_again(env: Any, nodes: Iterable[Node]) -> None:
    """Put into an environment what was put there behind these nodes.

    Raises:
        EnvError: the environment or its host failed.
    """
    for node in nodes:
        found = node.attributes.get(PLANTED)
        if isinstance(found, dict):
            await env.plant(found["surface"], found["words"])
