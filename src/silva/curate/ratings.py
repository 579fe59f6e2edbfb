"""What people say of pairs of steps: which of the two is better, or that neither is. Kept in the lake as their words.

    person ─▶ Supervision(note, source person, by, at) on the node both steps hang on ─▶ ratings ─▶ agreement, pairs

A rating names both steps and the better one, not a side of a screen and not what a verifier said: it stands whoever
judged the pair before, and of what one person says twice the later counts.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Literal

import msgspec

from silva.curate.kappa import kappa
from silva.curate.pairs import Paired, StepPair, candidate_pairs, pairs_of_run, step_pairs
from silva.lake import Lake, field
from silva.report.interval import proportion
from silva.tree import Record, Supervision, Trajectory, Tree, digest

KIND = "preference"
"""What the attributes of a rating's record are marked with."""
EQUAL = ""
"""The better step where neither is."""

By = Literal["verifier", "people", "both"]
"""Whose word a pair is taken at: the verifier's; of rated pairs the people's, and no others; or the people's where they
have rated it and the verifier's where nobody has."""


class Rating(Record, frozen=True, kw_only=True):
    """What one person said of a pair, called by its `key`: the id of the `better` step, or `EQUAL`. `at` is Unix
    seconds."""

    key: str
    better: str
    by: str
    at: float = 0.0
    reason: str = ""


class Agreement(Record, frozen=True, kw_only=True):
    """Two who judged the same `pairs`. `agree` is the share of which they say the same, with its 95 % interval, and
    `kappa` Cohen's; `decided` counts those of which both prefer a step, and `agree_decided` is the share of them."""

    left: str
    right: str
    pairs: int
    agree: float
    low: float | None
    high: float | None
    kappa: float | None
    decided: int
    agree_decided: float | None


def key(pair: StepPair) -> str:
    """What a pair is called, whichever of its steps is thought better."""
    return digest("pair", *sorted((pair.chosen_id, pair.rejected_id)))[:24]


def pairs_to_rate(lake: Lake, run: str) -> list[StepPair]:
    """The pairs of a run, whichever way its siblings were judged: by the verifier's scores where it searched (`silva
    rollout --candidates`), every one against the best; else by the scores of what began with each step.

    Raises:
        UsageError: the lake has no such run.
        StoreError: it cannot be read.
    """
    found = pairs_of_run(lake, run, lambda tree, of_tree: candidate_pairs(tree, of_tree, every=True))
    if found.searches:
        return found.pairs

    def scored(tree: Tree, of_tree: list[Trajectory]) -> Paired:
        return Paired(step_pairs(tree, of_tree, lambda each: each.outcome.score, by="score") if of_tree[1:] else [])

    return pairs_of_run(lake, run, scored).pairs


def rating_record(pair: StepPair, better: str, by: str, run_id: str, at: float, reason: str = "") -> Supervision:
    """A rating as the lake keeps it: a note, which takes no loss from anything.

    Args:
        pair: that is rated.
        better: the id of one of its steps, or `EQUAL`.
        by: the person.
        run_id: of the node on which both steps hang.
        at: Unix seconds.
        reason: their words, if they said any.
    """
    steps = sorted((pair.chosen_id, pair.rejected_id))
    return Supervision(
        id=secrets.token_hex(16),
        node_id=pair.parent_id,
        run_id=run_id,
        verdict="note",
        source="person",
        by=by,
        reason=reason,
        at=at,
        attributes={"kind": KIND, "pair": key(pair), "steps": steps, "better": better},
    )


def ratings(lake: Lake, pairs: Iterable[StepPair]) -> list[Rating]:
    """What people have said of pairs, the last word of each on each, by person and pair.

    Raises:
        StoreError: the lake cannot be read.
    """
    wanted = {key(pair) for pair in pairs}
    parents = sorted({pair.parent_id for pair in pairs})
    found: dict[tuple[str, str], Rating] = {}
    for said in lake.supervisions(where=field("node_id").is_in(parents)) if parents else ():  # by when they were given
        attributes = said.attributes
        if said.source == "person" and attributes.get("kind") == KIND and attributes.get("pair") in wanted:
            name = str(attributes["pair"])
            better = str(attributes.get("better", EQUAL))
            found[said.by, name] = Rating(key=name, better=better, by=said.by, at=said.at, reason=said.reason)
    return [found[each] for each in sorted(found)]


def agreement(pairs: Sequence[StepPair], said: Iterable[Rating]) -> list[Agreement]:
    """How far every two people agree, each person and each verifier, and what most people say and each verifier."""
    people: dict[str, dict[str, str]] = {}
    for each in said:
        people.setdefault(each.by, {})[each.key] = each.better
    verifiers: dict[str, dict[str, str]] = {}
    for pair in pairs:
        verifiers.setdefault(f"verifier {pair.by}", {})[key(pair)] = pair.chosen_id
    most = {name: better for name, (better, _) in _most(people).items()} if len(people) > 1 else {}
    names = [f"person {who}" for who in sorted(people)]
    judged = dict(zip(names, (people[who] for who in sorted(people)), strict=True))
    both = [*combinations(judged.items(), 2)]
    others = [*judged.items(), *([("most people", most)] if most else [])]
    both += [(person, verifier) for person in others for verifier in sorted(verifiers.items())]
    return [_agreement(left, says, right, also) for (left, says), (right, also) in both if says.keys() & also.keys()]


def judged(pairs: Sequence[StepPair], said: Iterable[Rating], by: By) -> list[StepPair]:
    """The pairs at whose word they are to be taken.

    A pair of which most people prefer the step that a verifier rejected changes its sides; one of which most say that
    neither is better, or of which as many say one thing as another, is no pair. `gap` is then the share of its raters
    that prefer the chosen step less the share that prefers the other, and `by` is `people`.
    """
    if by == "verifier":
        return list(pairs)
    people: dict[str, dict[str, str]] = {}
    for each in said:
        people.setdefault(each.by, {})[each.key] = each.better
    most = _most(people)
    found: list[StepPair] = []
    for pair in pairs:
        known = most.get(key(pair))
        if known is None:
            found += [pair] if by == "both" else []
        elif known[0] in (pair.chosen_id, pair.rejected_id):
            kept = pair if known[0] == pair.chosen_id else _turned(pair)
            found.append(msgspec.structs.replace(kept, gap=known[1], by="people"))
    return found


def _turned(pair: StepPair) -> StepPair:
    return msgspec.structs.replace(
        pair,
        chosen_id=pair.rejected_id,
        rejected_id=pair.chosen_id,
        chosen_trajectory=pair.rejected_trajectory,
        rejected_trajectory=pair.chosen_trajectory,
    )


def _most(people: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[str, float]]:
    """What most say of each pair (`EQUAL` where two sides have as many), and the lead of the first step over the
    second as a share of those who spoke."""
    votes: dict[str, Counter[str]] = {}
    for verdicts in people.values():
        for name, better in verdicts.items():
            votes.setdefault(name, Counter())[better] += 1
    found: dict[str, tuple[str, float]] = {}
    for name, counts in votes.items():
        (first, lead), *rest = counts.most_common()
        second = max((count for _, count in rest), default=0)
        against = sum(count for better, count in rest if better != EQUAL)
        found[name] = (EQUAL, 0.0) if second == lead else (first, (lead - against) / counts.total())
    return found


def _agreement(left: str, says: Mapping[str, str], right: str, also: Mapping[str, str]) -> Agreement:
    both = sorted(says.keys() & also.keys())
    same, beyond = kappa([says[name] for name in both], [also[name] for name in both])
    decided = [name for name in both if says[name] != EQUAL and also[name] != EQUAL]
    share = proportion([[says[name] == also[name]] for name in both])
    agree = [says[name] == also[name] for name in decided]
    return Agreement(
        left=left,
        right=right,
        pairs=len(both),
        agree=same,
        low=None if share is None else share.low,
        high=None if share is None else share.high,
        kappa=beyond,
        decided=len(decided),
        agree_decided=sum(agree) / len(agree) if agree else None,
    )
