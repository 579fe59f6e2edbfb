"""Ctrl-C while episodes are played: the first lets those under way end, the second ends them."""

from __future__ import annotations

import asyncio
import signal
from typing import Protocol


class Playing(Protocol):
    """What plays episodes; `silva.rollout.scheduler.Scheduler` is one."""

    @property
    def draining(self) -> bool:
        """Whether it begins no more."""
        ...

    def drain(self) -> None:
        """Begin no more."""
        ...

    def stop(self) -> None:
        """End those under way."""
        ...


def heed_interrupts(playing: Playing) -> None:
    """Let SIGINT and SIGTERM end what is played, from now on; in a running loop."""

    def interrupt() -> None:
        playing.stop() if playing.draining else playing.drain()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupt)
