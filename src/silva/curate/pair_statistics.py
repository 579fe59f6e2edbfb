"""What pairs of steps are like: how often a side was answered by an error, which tools it called, how alike they are.

    pairs, their tree ─▶ Sides: actions and answers ─▶ PairStatistics: errors, tools, BLEU of chosen against rejected

A rejected side that errs nearly always teaches to call tools well and little else; two sides of nearly the same words
(BLEU near 1) part in a detail. SPORT (2025, arXiv 2504.21561) reports these figures of its own pairs. BLEU is of words,
up to four of them in a row, with one added to numerator and denominator above single words (Lin and Och, 2004) and the
usual penalty for a shorter text; the mean over pairs.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

import msgspec

from silva.curate.pairs import StepPair
from silva.rollout.branching.choice import answered_badly
from silva.rollout.judged import answer_of, verdict_of
from silva.tree import Message, Node, Record, Tree

_WORD = re.compile(r"\w+|[^\w\s]")


class Side(Record, frozen=True, kw_only=True):
    """One side of all pairs. `errors`: actions that were answered by an error or a risk, or failed, of `answered`;
    `tools`: how often each was called, "" for actions without a call; `words`: the mean of an action's."""

    errors: int = 0
    answered: int = 0
    tools: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    words: float = 0.0

    @property
    def error_rate(self) -> float | None:
        """The share of answered actions that were answered badly."""
        return self.errors / self.answered if self.answered else None


class PairStatistics(Record, frozen=True, kw_only=True):
    """Of so many `pairs` of `tasks` tasks. `by`: how many each verifier judged; `gap`: the mean difference of their
    scores; `bleu`: of the chosen words against the rejected; `same_tools`: the share of pairs whose sides call the
    same tools, and so part in arguments or words."""

    pairs: int = 0
    tasks: int = 0
    by: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    gap: float | None = None
    bleu: float | None = None
    same_tools: float | None = None
    chosen: Side = Side()
    rejected: Side = Side()


def pair_statistics(pairs: Sequence[StepPair], tree_of: Callable[[str], Tree]) -> PairStatistics:
    """Statistics of pairs. `tree_of` gives a tree by its id; pairs of one tree are asked for together."""
    sides: dict[str, list[tuple[Node, list[Node]]]] = {"chosen": [], "rejected": []}
    alike: list[float] = []
    same: list[float] = []
    for tree_id in sorted({each.tree_id for each in pairs}):
        tree = tree_of(tree_id)
        for each in pairs:
            if each.tree_id != tree_id:
                continue
            chosen, rejected = tree.node(each.chosen_id), tree.node(each.rejected_id)
            sides["chosen"].append((chosen, answer_of(tree, chosen)))
            sides["rejected"].append((rejected, answer_of(tree, rejected)))
            alike.append(bleu(words(chosen.message), words(rejected.message)))
            same.append(_tools(chosen.message) == _tools(rejected.message))
    return PairStatistics(
        pairs=len(pairs),
        tasks=len({each.task_id for each in pairs}),
        by=dict(Counter(each.by for each in pairs)),
        gap=fmean(each.gap for each in pairs) if pairs else None,
        bleu=fmean(alike) if alike else None,
        same_tools=fmean(same) if same else None,
        chosen=_side(sides["chosen"]),
        rejected=_side(sides["rejected"]),
    )


def words(action: Message) -> list[str]:
    """The words of an action, those of its calls too, in small letters."""
    calls = (f"{call.name} {call.arguments}" for call in action.tool_calls)
    return _WORD.findall("\n".join((action.text, *calls)).lower())


def bleu(candidate: Sequence[str], reference: Sequence[str], most: int = 4) -> float:
    """BLEU of one text against another, in [0, 1]; 1 where both say the same."""
    if not candidate or not reference:
        return float(list(candidate) == list(reference))
    logs: list[float] = []
    for size in range(1, min(most, len(candidate), len(reference)) + 1):
        have, want = _runs(candidate, size), _runs(reference, size)
        shared, count, more = sum((have & want).values()), sum(have.values()), int(size > 1)
        if not shared + more:
            return 0.0
        logs.append(math.log((shared + more) / (count + more)))
    penalty = min(0.0, 1 - len(reference) / len(candidate))
    return math.exp(fmean(logs) + penalty)


def _runs(said: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(said[at : at + size]) for at in range(len(said) - size + 1))


def _bad(action: Node, answer: Iterable[Node]) -> bool:
    verdict = verdict_of(action)
    if verdict is not None and verdict.error:
        return True
    return any(node.risks or answered_badly(node.message) for node in answer)


def _side(actions: Sequence[tuple[Node, list[Node]]]) -> Side:
    tools = Counter(name for action, _ in actions for name in _tools(action.message) or ("",))
    bad = [_bad(action, answer) for action, answer in actions]
    return Side(
        errors=sum(bad),
        answered=sum(bool(answer) or one for (_, answer), one in zip(actions, bad, strict=True)),
        tools=dict(tools.most_common()),
        words=fmean(len(words(action.message)) for action, _ in actions) if actions else 0.0,
    )


def _tools(action: Message) -> tuple[str, ...]:
    return tuple(call.name for call in action.tool_calls)
