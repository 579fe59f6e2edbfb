"""What is held of conversations in memory, counted together by all who hold some of it, so that one bound is enough."""

from __future__ import annotations


class Held:
    """How many bytes they have together, roughly. Each adds what it takes in and takes off what it lets go."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0
