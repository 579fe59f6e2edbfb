"""TextWorld's goals: facts that the game's own logic keeps track of, such as where things are and what is open.

    game ─▶ rooms, things, doors ─▶ facts that do not hold yet ─▶ Goal(words, {"fact": [predicate, names …]})
    commands ─▶ the game ─▶ its facts after each ─▶ which goals have come to hold, loops cut by the facts' digest

Nothing is said of whether a goal can be reached: a thing may lie in a safe whose key is nowhere, and then only acting
shows it. Names are the game's own identifiers (`k_0`), which are the same for the same size and seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from textworld.generator.inform7 import Inform7Game

from silva.envs.protocol import Achieved, Goal
from silva.envs.synthesis import loops_cut
from silva.errors import UsageError

Fact = tuple[str, ...]

_WORDS = {
    "go": "go to the {0}",
    "have": "have the {0} with you",
    "into": "put the {0} into the {1}",
    "onto": "put the {0} on the {1}",
    "leave": "leave the {0} in the {1}",
    "open": "open the {0}",
    "close": "close the {0}",
    "eat": "eat the {0}",
}
_LOOKING = ("examine", "look", "inventory")


def facts(state: Any) -> set[Fact]:
    """The facts that hold in a state of a game: a predicate and the identifiers it is of."""
    return {(fact.name, *(each.name for each in fact.arguments)) for fact in state["_facts"]}


def goals(state: Any) -> list[Goal]:
    """The goals of a game in its first state, but for those that hold already."""
    there, holding = _named(state), facts(state)
    rooms, containers, supporters = ([name for name in there if there[name][1] == kind] for kind in "rcs")
    doors = [name for name in there if there[name][1] == "d"]
    things = [name for name in there if there[name][1] in ("o", "k", "f")]
    found: list[tuple[str, Fact]] = [("go", ("at", "P", room)) for room in rooms]
    for thing in things:
        found.append(("have", ("in", thing, "I")))
        found += [("into", ("in", thing, each)) for each in containers]
        found += [("onto", ("on", thing, each)) for each in supporters]
        found += [("leave", ("at", thing, room)) for room in rooms]
        found += [("eat", ("eaten", thing))] if there[thing][1] == "f" else []
    found += [(word, (fact, each)) for each in (*containers, *doors) for word, fact in _LIDS]
    return [_goal(pattern, fact, there) for pattern, fact in found if fact not in holding]


_LIDS = (("open", "open"), ("close", "closed"))


def goal(state: Any, data: Any) -> Goal:
    """The goal of that data in a game's first state.

    Raises:
        UsageError: the game has no such goal.
    """
    said = data.get("fact") if isinstance(data, dict) else None
    for each in goals(state):
        if each.data["fact"] == said:
            return each
    raise UsageError(f"the game has no goal {said!r}: it holds already, or names what is not there")


def holds(state: Any, data: Any) -> bool:
    """Whether a goal holds in a state."""
    return tuple(data["fact"]) in facts(state)


def looked_back(game: Any, first: Any, turns: Iterable[Sequence[str]]) -> list[Achieved]:
    """What commands bring about in a game that was just begun; it ends where the game ends.

    Args:
        game: to type them into.
        first: its first state.
        turns: for each turn its commands.
    """
    waiting = {tuple(each.data["fact"]): each for each in goals(first)}
    state, states, found, over = first, [_digest(first)], list[Achieved](), False
    for turn, commands in enumerate(turns, 1):
        held: set[Fact] = set()
        for command in commands:
            if not over:
                state, _, over = game.step(command)
                held |= facts(state) & waiting.keys()
        for fact in sorted(held):
            kept = (*loops_cut(states), turn - 1)
            found.append(Achieved(goal=waiting.pop(fact), turn=turn, kept=kept))
        states.append(_digest(state))
    return found


def valid(state: Any) -> list[str]:
    """The commands that the game would take in a state, but for those that only look."""
    made = Inform7Game(state["game"]).gen_commands_from_actions(state["_valid_actions"])
    return sorted({each for each in made if not each.startswith(_LOOKING)})


def _named(state: Any) -> dict[str, tuple[str, str]]:
    """Name and kind of what is in the game, by its identifier."""
    found = state["game"].infos
    return {key: (str(info.name), str(info.type)) for key, info in sorted(found.items()) if info.name}


def _goal(pattern: str, fact: Fact, there: dict[str, tuple[str, str]]) -> Goal:
    names = [there[each][0] for each in fact[1:] if each in there]
    return Goal(words=_WORDS[pattern].format(*names), data={"fact": list(fact)}, pattern=pattern)


def _digest(state: Any) -> str:
    return hashlib.blake2b(repr(sorted(facts(state))).encode(), digest_size=16).hexdigest()
