"""Who acted: which implementation of a role made a record, with which words, and at what cost.

    a role acts (verifier, explorer, abstracter, writer, diagnoser, evolver) ─▶ Acted ─┬▶ a node: attributes["acted"]
                                                                                       └▶ a row: a column `acted`

A role has implementations that ask a model and some that do not; a figure is of one of them, so every record that a
role made says which. Several roles may have acted on one node; each has its entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

import msgspec

from silva.tree import Node, Record, Usage, digest

ATTRIBUTE = "acted"
"""Where a node, or a row, says which roles acted on it."""

Role = Literal["verifier", "explorer", "abstracter", "writer", "diagnoser", "evolver"]
ROLES: tuple[Role, ...] = get_args(Role)


class Acted(Record, frozen=True, kw_only=True):
    """One deed of a role. `by`: the registered name of its implementation (`completions`, `endpoint`, `mutations`,
    `person`); `model`: the one that was asked, "" where none was; `prompt`: the digest of the template of its words
    (`prompt_digest`), "" where there are none; tokens as billed, `usd` where a price is known, `seconds` of waiting."""

    role: Role
    by: str
    model: str = ""
    prompt: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    usd: float = 0.0

    @classmethod
    def of(cls, role: Role, by: str, usage: Usage, *, model: str = "", prompt: str = "") -> Acted:
        """A deed that cost `usage`; what was waited for is the model and the environment."""
        return cls(
            role=role,
            by=by,
            model=model,
            prompt=prompt,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            seconds=usage.model_seconds + usage.env_seconds,
            usd=usage.usd,
        )


def prompt_digest(template: str) -> str:
    """What names the template of a prompt: the first 16 hex digits of its digest."""
    return digest(template)[:16]


def acted(*deeds: Acted) -> dict[str, Any]:
    """The attribute, or the column, that says who acted."""
    return {ATTRIBUTE: [msgspec.to_builtins(deed) for deed in deeds]}


def acted_on(record: Node | Mapping[str, Any]) -> tuple[Acted, ...]:
    """Who acted on a node or a row; empty where nobody did, or where it cannot be read."""
    said = (record.attributes if isinstance(record, Node) else record).get(ATTRIBUTE)
    if said is None:
        return ()
    try:
        return tuple(msgspec.convert(said, list[Acted]))
    except msgspec.ValidationError:
        return ()


def in_all(deeds: Iterable[Acted]) -> list[tuple[Acted, int]]:
    """What each implementation, model and prompt cost together, and how often it acted; in order of role and name."""
    sums: dict[tuple[str, str, str, str], tuple[Acted, int]] = {}
    for deed in deeds:
        key = (deed.role, deed.by, deed.model, deed.prompt)
        before, count = sums.get(key, (None, 0))
        sums[key] = (deed if before is None else plus(before, deed), count + 1)
    return [sums[key] for key in sorted(sums)]


def plus(one: Acted, other: Acted) -> Acted:
    """The first deed, with what the other cost besides; who was asked, and how, as the first of them says it."""
    return msgspec.structs.replace(
        one,
        model=one.model or other.model,
        prompt=one.prompt or other.prompt,
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        completion_tokens=one.completion_tokens + other.completion_tokens,
        seconds=one.seconds + other.seconds,
        usd=one.usd + other.usd,
    )
