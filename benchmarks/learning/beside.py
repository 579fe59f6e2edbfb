"""Arms of a seed side by side, each in a process of its own, as many at once as the seed has cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


def beside(arm: Callable[..., T], asked: Sequence[tuple[Any, ...]], cores: int) -> list[T]:
    """What `arm` says to each of what it is asked, in their order. Each computes in one thread.

    Raises:
        Exception: the first that one of them raised.
    """
    with cores_of(cores) as pool:
        return list(pool.map(arm, *zip(*asked, strict=True)))


def cores_of(cores: int) -> ProcessPoolExecutor:
    """So many processes, for arms of which some can be asked for only when others have ended."""
    return ProcessPoolExecutor(cores, get_context("spawn"), _end_with_parent)


def _end_with_parent() -> None:
    """A seed that is killed leaves no arm running."""
    parent = parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()
