"""Each instance's own state of the global random generators (`random`, `numpy.random`, torch's).

    instance 1 ─┐
    instance 2 ─┼─▶ who runs has its state installed; it is taken out when another one runs
    the process ┘

Simulators draw from the global generators and seed them in `reset`. Several of them in one process would draw from one
stream, so each would repeat itself only when alone. What runs between two awaits runs alone, so the states are
exchanged there. A class with threads has instances that run at the same moment, so theirs cannot be kept apart
(`silva envs test` finds that out). A generator whose package is loaded later begins with a state of its own.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Coroutine, Generator
from typing import Any, NamedTuple


class _Taken(NamedTuple):
    """The states of one owner; None where the package was not loaded."""

    random: Any
    numpy: Any = None
    torch: Any = None


class RandomStates:
    """The states of the instances of one process, by number.

    Args:
        shared: whether others draw from the generators between two steps; their state is then put back each time.
    """

    def __init__(self, shared: bool = False) -> None:
        self._shared = shared
        self._states: dict[int | None, _Taken] = {}
        self._owner: int | None = None

    async def own(self, number: int, work: Coroutine[Any, Any, Any]) -> Any:
        """Do an instance's work with its own state."""
        return await _Steps(self, number, work)

    def switch(self, owner: int | None) -> None:
        """Install an owner's state; None is the process. An instance that is new begins with one that nobody had."""
        if owner == self._owner:
            return
        self._states[self._owner] = _taken()
        _install(self._states.get(owner))
        self._owner = owner

    def step_over(self) -> None:
        """An instance's step has ended."""
        if self._shared:
            self.switch(None)

    def forget(self, number: int) -> None:
        """An instance is closed."""
        if self._owner == number:
            self.switch(None)
        self._states.pop(number, None)


class _Steps(Generator[Any, Any, Any]):
    """A coroutine between whose awaits the states are exchanged."""

    def __init__(self, states: RandomStates, number: int, work: Coroutine[Any, Any, Any]) -> None:
        self._states, self._number, self._work = states, number, work

    def __await__(self) -> Generator[Any, Any, Any]:
        return self

    def send(self, value: Any) -> Any:
        self._states.switch(self._number)
        try:
            return self._work.send(value)
        finally:
            self._states.step_over()

    def throw(self, *error: Any) -> Any:
        self._states.switch(self._number)
        try:
            return self._work.throw(*error)
        finally:
            self._states.step_over()

    def close(self) -> None:
        self._work.close()


def _taken() -> _Taken:
    numpy, torch = _numpy(), sys.modules.get("torch")
    return _Taken(
        random.getstate(),
        numpy.get_state(legacy=False) if numpy is not None else None,
        torch.get_rng_state() if torch is not None and hasattr(torch, "get_rng_state") else None,
    )


def _install(state: _Taken | None) -> None:
    numpy, torch = _numpy(), sys.modules.get("torch")
    if state is None:
        state = _Taken(random.Random().getstate())
    random.setstate(state.random)
    if numpy is not None:
        numpy.set_state(state.numpy or numpy.RandomState().get_state(legacy=False))
    if torch is not None and hasattr(torch, "set_rng_state"):
        fresh = torch.Generator()
        fresh.seed()
        torch.set_rng_state(fresh.get_state() if state.torch is None else state.torch)


def _numpy() -> Any:
    """`numpy.random`, where it is loaded."""
    return sys.modules.get("numpy.random") if "numpy.random.mtrand" in sys.modules else None
