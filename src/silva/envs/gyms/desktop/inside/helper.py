"""A program beside the driver that may hang, crash or be killed, without the driver going with it.

Helper(script).ask(message) ─▶ a process, begun when first needed, on a socket as descriptor 0 ─▶ its reply, or None
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import wire

_START_SECONDS = 30.0


class Helper:
    """One such program, begun again when it has ended."""

    def __init__(self, script: str) -> None:
        self._script = script
        self._running: tuple[subprocess.Popen[bytes], socket.socket] | None = None

    def ask(self, message: dict[str, Any], within: float) -> dict[str, Any] | None:
        """Its reply; None where it gave none in time: it is then ended."""
        try:
            channel = self._channel()
            channel.settimeout(within)
            wire.send(channel, message)
            said = wire.receive(channel)
        except (OSError, ValueError):
            said = None
        if said is None:
            self.dismiss()
        return said

    def dismiss(self) -> None:
        """End it."""
        if self._running is not None:
            process, channel = self._running
            self._running = None
            channel.close()
            process.kill()
            process.wait()

    def _channel(self) -> socket.socket:
        if self._running is not None and self._running[0].poll() is not None:
            self.dismiss()
        if self._running is None:
            own, other = socket.socketpair()
            with other:
                words = [sys.executable, "-s", "-B", str(Path(__file__).with_name(self._script))]
                process = subprocess.Popen(words, stdin=other.fileno(), stdout=subprocess.DEVNULL)
            self._running = process, own
            own.settimeout(_START_SECONDS)
            wire.receive(own)
        return self._running[1]


def serve(answer: Callable[[socket.socket, dict[str, Any]], dict[str, Any]]) -> None:
    """The program's side: answer until the driver goes."""
    channel = socket.socket(fileno=os.dup(0))
    channel.set_inheritable(False)
    sys.stdout.flush()  # else what was said while loading is said again by everything that is forked
    wire.send(channel, {"ready": True})
    while (asked := wire.receive(channel)) is not None:
        wire.send(channel, answer(channel, asked))
