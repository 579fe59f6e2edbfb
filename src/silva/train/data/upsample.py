"""Trajectories that count more often: those a condition picks, by a factor.

`env = 'babyai' and turns > 10` ─▶ picked entries ─▶ copies x factor; what is left of a fraction falls by digest
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import msgspec

from silva.errors import UsageError
from silva.train.data.dataset import DataSet, Entry
from silva.tree import digest

FIELDS = ("lake", "run_id", "env", "task_id", "group", "score", "success", "turns", "copies", "weight")

Rule = Callable[[Entry], bool]

_CONDITION = re.compile(r"\s*(\w+)\s*(<=|>=|!=|==|=|<|>|~)\s*(?:'([^']*)'|(\S+))\s*")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def rule_of(text: str) -> Rule:
    """The rule a text states: conditions on an entry's fields joined by `and`; `~` searches by regular expression.

    Raises:
        UsageError: it states none.
    """
    rules = [_condition(part, text) for part in re.split(r"\s+and\s+", text.strip(), flags=re.IGNORECASE)]
    return lambda entry: all(rule(entry) for rule in rules)


def upsample(dataset: DataSet, factor: float, rule: Rule, *, weigh: bool = False, seed: int = 0) -> DataSet:
    """The set with the entries that the rule picks counting `factor` times as often.

    Args:
        dataset: as it is.
        factor: above 0; where it is no whole number some entries get one copy more than others. Below 1 it thins them
            out, and an entry left without a copy is left out.
        rule: picks.
        weigh: multiply their weight in the loss instead of their copies.
        seed: of which entries get the copy more.

    Raises:
        UsageError: the factor is not above 0, or the rule picks nothing, or nothing is left.
    """
    if not 0 < factor < float("inf"):
        raise UsageError(f"upsample: the factor {factor:g} is not a number above 0")
    picked = [rule(entry) for entry in dataset.entries]
    if not any(picked):
        raise UsageError("upsample: the rule picks no trajectory of this set")
    kept: list[Entry] = []
    for entry, chosen in zip(dataset.entries, picked, strict=True):
        if not chosen:
            kept.append(entry)
        elif weigh:
            kept.append(msgspec.structs.replace(entry, weight=entry.weight * factor))
        else:
            wanted = entry.copies * factor
            point = int(digest("upsample", str(seed), entry.trajectory_id)[:13], 16) / 16**13
            copies = int(wanted) + (point < wanted - int(wanted))
            kept += [msgspec.structs.replace(entry, copies=copies)] if copies else []
    if not kept:
        raise UsageError(f"upsample: a factor of {factor:g} leaves nothing; take a larger one")
    return msgspec.structs.replace(dataset, entries=tuple(kept))


def _condition(part: str, whole: str) -> Rule:
    found = _CONDITION.fullmatch(part)
    if found is None:
        raise UsageError(f"rule {whole!r}: {part!r} is no condition; write for example env = babyai and turns > 10")
    name, sign, quoted, bare = found.groups()
    if name not in FIELDS:
        raise UsageError(f"rule {whole!r}: {name} is not known; possible are {', '.join(FIELDS)}")
    if sign == "~":
        try:
            pattern = re.compile(quoted if quoted is not None else bare)
        except re.error as fault:
            raise UsageError(f"rule {whole!r}: it is no regular expression ({fault})") from fault
        return lambda entry: pattern.search(str(getattr(entry, name))) is not None
    value = quoted if quoted is not None else _value(bare)
    compare = _COMPARE[sign]
    kind = "text" if name in ("lake", "run_id", "env", "task_id", "group") else "number"
    if (kind == "text") != isinstance(value, str):
        raise UsageError(f"rule {whole!r}: {name} is a {kind}, {value!r} is none")

    def holds(entry: Entry) -> bool:
        have = getattr(entry, name)
        return have is not None and compare(have, value)

    return holds


def _value(text: str) -> str | float | bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        return text
