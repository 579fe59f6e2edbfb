"""What is to be told of a run's searches: how many told nothing, and why, a line each.

trajectories ─ attributes["candidates"] ─▶ Totals ─▶ lines
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from silva.rollout.acted import Acted, acted_on, in_all
from silva.tree import Record, Trajectory

KEY = "candidates"
"""Where a trajectory's record says how its searches went."""


class Totals(Record, frozen=True, kw_only=True):
    """All searches of a run together. `replayed`: actions that copies took again to get to their state; `facts`: what
    the verifier counted; `off`: why searches were given up, by the number of episodes; `acted`: what each verifier
    cost, and in how many episodes."""

    by: str
    searches: int = 0
    drawn: int = 0
    distinct: int = 0
    tried: int = 0
    equal: int = 0
    tied: int = 0
    replayed: int = 0
    facts: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    off: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    acted: tuple[tuple[Acted, int], ...] = ()


def totals(trajectories: Iterable[Trajectory]) -> Totals | None:
    """All searches of these trajectories together; None where none searched."""
    by, counts, facts, off = "", Counter[str](), Counter[str](), Counter[str]()
    deeds: list[Acted] = []
    for each in trajectories:
        said: dict[str, Any] = each.attributes.get(KEY) or {}
        by = str(said.get("by") or by)
        counts.update({name: int(said.get(name) or 0) for name in COUNTED})
        facts.update(said.get("facts") or {})
        off.update([said["off"]] if said.get("off") else [])
        deeds += acted_on(said)
    if not by:
        return None
    return Totals(by=by, **counts, facts=dict(facts), off=dict(off), acted=tuple(in_all(deeds)))


def costs(found: Totals | None) -> list[str]:
    """What each verifier cost, a line each."""
    said: list[str] = []
    for deed, episodes in found.acted if found is not None else ():
        tokens = deed.prompt_tokens + deed.completion_tokens
        money = f", {deed.usd:.2f} USD" if deed.usd else ""
        said.append(
            f"verifier {deed.by}: {tokens:,} tokens, {deed.seconds:,.0f} s of waiting{money} ({episodes} episodes)"
        )
    return said


COUNTED = ("searches", "drawn", "distinct", "tried", "equal", "tied", "replayed")


def lines(found: Totals | None) -> list[str]:
    """What a user should know of it, a line each; none where every search told something."""
    if found is None:
        return []
    said: list[str] = []
    judged = found.searches - found.equal
    if found.equal:
        said.append(
            f"candidates: in {found.equal} of {found.searches} searches all draws said the same, which gives no pair"
            + ("; raise sampling.temperature" if found.equal * 2 > found.searches else "")
        )
    if found.tied:
        always = "every time: its scores part nothing" if found.tied == judged else "the first draw went on there"
        said.append(f"verifier {found.by}: tied in {found.tied} of {judged} searches, which give no pair ({always})")
    if place := found.facts.get("place"):
        said.append(
            f"verifier {found.by}: in {place} of {judged} searches it chose what stood first in both orders, which "
            "judges the place and not the candidate; they count as ties"
        )
    if differ := found.facts.get("differ"):
        said.append(
            f"verifier {found.by}: in {differ} of {judged} searches it chose another when the order was turned round; "
            "they count as ties"
        )
    if unread := found.facts.get("unread"):
        said.append(f"verifier {found.by}: in {unread} searches its answer could not be read; they count as ties")
    if unjudged := found.facts.get("unjudged"):
        said.append(f"verifier {found.by}: {unjudged} completions could not be judged and count for nothing")
    if found.replayed:
        said.append(
            f"candidates: no snapshot could be taken, so copies took the actions so far again: {found.replayed} actions"
        )
    for why, episodes in found.off.items():
        said.append(f"candidates: given up in {episodes} episodes, whose later turns are the policy's own draw: {why}")
    return said
