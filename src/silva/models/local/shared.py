"""Servers of local models that several rollouts use one after the other: started once, stopped at the end.

sharing() ─▶ started(weights) … started(weights) : the same server ─▶ stopped behind `sharing`
nobody shares ─▶ started(weights) : a process of one's own, which the caller stops
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from silva.models.child import Child
from silva.models.local.server import Within, start_local
from silva.models.local.vllm_child import start_vllm

Kind = tuple[str, int | None, int, Path | None]
"""Engine, threads, rows and weights."""

Server = Child | Within


class _Shared(dict[Kind, Server]):
    def __init__(self, within: bool = False) -> None:
        super().__init__()
        self.within = within


_SHARED: ContextVar[_Shared | None] = ContextVar("shared", default=None)


@contextmanager
def sharing(within: bool = False) -> Iterator[None]:
    """Share the servers that are started meanwhile, across event loops; they stop at the end. `within`: those of local
    models are threads of this process (see `Within`)."""
    shared = _Shared(within)
    token = _SHARED.set(shared)
    try:
        yield
    finally:
        _SHARED.reset(token)
        _stop(shared)


def start_anew() -> None:
    """Stop what is shared: who asks next gets a new one. For when one may be what broke."""
    _stop(_SHARED.get() or _Shared())


def only_last() -> None:
    """Stop what is shared but the server that was asked for last: between two pieces of work, of which the next one may
    ask for the same weights."""
    shared = _SHARED.get()
    while shared and len(shared) > 1:
        shared.pop(next(iter(shared))).stop_now()


def started(
    threads: int | None, rows: int, weights: Path | None, engine: str = "torch"
) -> tuple[Server, Callable[[], None] | None]:
    """A server, and what stops it; None where it is shared. Blocks until it serves. `engine` is `torch`, or `vllm` for
    a folder of weights.

    Raises:
        MissingError, UsageError, ModelError: as `start_local`, or `start_vllm`.
    """
    shared, kind = _SHARED.get(), (engine, threads, rows, weights)
    child = shared.get(kind) if shared is not None else None
    if child is None or not child.running:
        if engine == "vllm" and weights is not None:
            child = start_vllm(rows, weights)
        elif shared is not None and shared.within:
            child = Within(threads, rows, weights)
        else:
            child = start_local(threads, rows, None, weights)
    if shared is None:
        return child, child.stop_now
    shared.pop(kind, None)  # what is asked for stands last
    shared[kind] = child
    return child, None


def _stop(shared: _Shared) -> None:
    while shared:
        shared.popitem()[1].stop_now()
