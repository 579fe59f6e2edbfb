"""What an agent is shown of an observation, and who wrote which part of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from silva.envs.protocol import Observation
from silva.tree import Author


@dataclass(frozen=True, slots=True)
class Writer:
    """Who wrote a message in the environment's place: an author, and the stage's name."""

    author: Author
    stage: str


class Shown(msgspec.Struct, frozen=True):
    """What the agent is shown (`observation`), what the environment said (`original`), and who wrote the messages, by
    their place, that are not as it said them."""

    observation: Observation
    original: Observation
    writers: Mapping[int, Writer]
