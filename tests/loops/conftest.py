"""What tests of the loops share: the small weights of training's tests, the Ray cluster of rollouts'."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small_flywheel import COMMAND

sys.path.append(str(Path(__file__).parents[1] / "train"))
sys.path.append(str(Path(__file__).parents[1] / "rollout"))


@pytest.fixture
def begin() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Begins loops as commands of their own sessions; those still running are killed in the end."""
    begun: list[subprocess.Popen[bytes]] = []

    def start(config: Path, kind: str = "flywheel") -> subprocess.Popen[bytes]:
        begun.append(subprocess.Popen([sys.executable, "-c", COMMAND, kind, str(config)], start_new_session=True))
        return begun[-1]

    yield start
    for process in begun:
        process.kill()
        process.wait()
