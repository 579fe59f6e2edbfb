"""What an engine is to this benchmark. Standard library only: an engine's own environment has no more than the engine."""

from __future__ import annotations

from typing import Protocol

Sampled = list[tuple[list[int], list[float]]]


class NotRun(Exception):
    """An engine that was not measured, and why."""


class Sampler(Protocol):
    """An engine, opened. Its module has `open_sampler(model, threads, *words)`, which raises `NotRun` where it cannot be."""

    version: str

    def sample(self, prompts: list[list[int]], new: int) -> Sampled:
        """`new` ids and log-probabilities for each prompt; NaN is a log-probability that the engine withholds."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...
