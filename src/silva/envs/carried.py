"""An attack that an environment carries itself: its benchmark's own, written into its state before the episode begins.

    reset ─▶ attributes {"carried": {attack, goal, words, calls, reached}} ; step ─▶ {"carried": {"reached": …}}

An environment with attacks of its own says in its opening's attributes what it carries, and with each answer whether
the attacker's goal now holds by its own checker. `silva.redteam.carried` reads that beside what the model was shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

from silva.tree import Json, Record

CARRIED = "carried"
"""The attribute of an observation that says so."""

_WORD = re.compile(r"[^\W_]+")
_GAPS = re.compile(r"(?:\\[nrt]|[\W_])+")


class Carried(Record, frozen=True, kw_only=True):
    """What an environment carries. `attack`: its name in three parts; `goal`: what the attacker wants, in words;
    `words`: the texts that stand in the state, one of which an agent must read to be exposed; `calls`: the calls that
    reach the goal, as (tool, arguments); `reached`: whether it holds already."""

    attack: str
    goal: str
    words: tuple[str, ...]
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    reached: bool = False

    def told(self) -> Json:
        """As an observation's attributes have it."""
        return {CARRIED: msgspec.to_builtins(self)}


def holds(texts: Iterable[str], words: Iterable[str]) -> bool:
    """Whether one of the words stands whole in one of the texts, however its lines are broken and its quotes escaped:
    an environment may show what it holds as YAML or JSON."""
    wanted = [_bare(each) for each in words]
    for text in texts:
        near = [bare for bare, longest in wanted if bare and longest in text]
        if near:
            without = _GAPS.sub("", text)
            if any(bare in without for bare in near):
                return True
    return False


@lru_cache(maxsize=1024)
def _bare(words: str) -> tuple[str, str]:
    """Words without gaps, and the longest of them, which no line break and no quote parts."""
    return _GAPS.sub("", words), max(_WORD.findall(words), key=len, default="")
