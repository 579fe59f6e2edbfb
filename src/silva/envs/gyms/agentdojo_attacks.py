"""AgentDojo's published attacks: each pair of a user task and an injection task, under each attack, is a task.

    attack, suite ─▶ pairs ─▶ Task (agentdojo/SUITE/USER_TASK/INJECTION_TASK/ATTACK) ─▶ words ─▶ injections of vectors

The words, and which vectors a user task's agent reads, are the package's own. An attack that has the agent stop comes
once for each user task, as in the package, and its goal is reached where the user's task is not done.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from silva.envs.gyms.agentdojo_entry import ATTACKS
from silva.envs.gyms.agentdojo_state import Suite
from silva.errors import UsageError

STOPPING = "asdf"
"""What the package's attacks that have the agent stop ask it to say."""


class _Quick:
    """A suite as an attack sees it, whose states are made quickly."""

    def __init__(self, suite: Any, states: Suite) -> None:
        self._suite, self._states = suite, states

    def __getattr__(self, name: str) -> Any:
        return getattr(self._suite, name)

    def load_and_inject_default_environment(self, injections: dict[str, str]) -> Any:
        return self._states.state(injections)


class _Named:
    """What an attack wants to know of the agent that it is for: how its model is called."""

    def __init__(self, name: str) -> None:
        self.name = name


@lru_cache(maxsize=256)
def attack(name: str, suite: Any, states: Suite, model: str) -> Any:
    """The package's attack of that name.

    Raises:
        UsageError: it does not know the model.
    """
    from agentdojo.attacks.attack_registry import load_attack

    try:
        return load_attack(name, _Quick(suite, states), _Named(model))  # type: ignore[arg-type]
    except ValueError as error:
        raise UsageError(f"agentdojo: attack {name}: model {model!r}: {error}") from error


def pairs(name: str, suite: Any, stops: bool) -> Iterator[tuple[str, Any, str]]:
    """Every (user task's name, user task, injection task's name) that an attack is published for."""
    injected = list(suite.injection_tasks)
    for user_name, user in suite.user_tasks.items():
        for each in injected[:1] if stops else injected:
            yield user_name, user, each


def stops(name: str) -> bool:
    """Whether an attack has the agent stop, whatever the injection task.

    Raises:
        UsageError: it is none of the published ones.
    """
    if name not in ATTACKS:
        raise UsageError(f"agentdojo: no attack {name!r}: one of {', '.join(ATTACKS)}")
    from agentdojo.attacks.attack_registry import ATTACKS as classes

    return bool(classes[name].is_dos_attack)


def words(made: Any, user: Any, injected: Any) -> dict[str, str]:
    """The words of an attack, by the vector they stand in.

    Raises:
        UsageError: the user task's agent reads no vector.
    """
    try:
        return made.attack(user, injected)
    except ValueError as error:
        raise UsageError(f"agentdojo: {made.name}: {error}") from error
