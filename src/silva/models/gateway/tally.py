"""What was answered, counted: one tally for each model and dialect, made into metrics when somebody asks.

    turn ─▶ Tally.answered: a few sums ─▶ … ─▶ Tallies.collect ─▶ Prometheus

Prometheus' own counters take a lock for every sum, seven a turn, though somebody reads them every few seconds only.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from silva.tree import Usage

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
OWN_SECONDS = SECONDS[:12]


class Durations:
    """How many took how long. `counts` has one number for each bound of `bounds` (seconds, rising) and one for more."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """One took so many seconds."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    def take_in(self, other: Durations) -> None:
        """Add what another counted within the same bounds."""
        self.counts = [one + more for one, more in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    def buckets(self) -> list[tuple[str, float]]:
        """What Prometheus calls buckets: each bound with how many took no longer."""
        names = [*map(floatToGoString, self.bounds), "+Inf"]
        return list(zip(names, map(float, accumulate(self.counts)), strict=True))


class Tally:
    """Turns answered by one model in one dialect."""

    __slots__ = ("completion_tokens", "own", "prompt_tokens", "seconds", "since", "turns", "usd")

    def __init__(self) -> None:
        self.since = time.time()
        self.turns = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.usd = 0.0
        self.seconds = Durations(SECONDS)
        self.own = Durations(OWN_SECONDS)

    def answered(self, usage: Usage, seconds: float, waited: float) -> None:
        """One was answered in so many seconds, of which it waited some in line."""
        self.turns += 1
        self.prompt_tokens += usage.prompt_tokens
        self.completion_tokens += usage.completion_tokens
        self.usd += usage.usd
        self.seconds.add(seconds)
        self.own.add(max(0.0, seconds - waited - usage.model_seconds))

    def take_in(self, other: Tally) -> None:
        """Add what another counted."""
        self.since = min(self.since, other.since)
        self.turns += other.turns
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        self.usd += other.usd
        self.seconds.take_in(other.seconds)
        self.own.take_in(other.own)


class Tallies(Collector):
    """The tallies of one gateway, by model and dialect."""

    def __init__(self) -> None:
        self._each: defaultdict[tuple[str, str], Tally] = defaultdict(Tally)

    def __getitem__(self, key: tuple[str, str]) -> Tally:
        """The tally of a model and a dialect."""
        return self._each[key]

    def collect(self) -> Iterable[Metric]:
        """The metrics; all but the number of turns are of a model whatever it was asked in."""
        turns = CounterMetricFamily("silva_turns", "Turns answered", labels=("model", "dialect"))
        tokens = CounterMetricFamily("silva_tokens", "Tokens of answered turns", labels=("model", "kind"))
        usd = CounterMetricFamily("silva_cost_dollars", "Cost of answered turns", labels=("model",))
        models: defaultdict[str, Tally] = defaultdict(Tally)
        for (model, dialect), tally in self._each.items():
            turns.add_metric((model, dialect), tally.turns, tally.since)
            models[model].take_in(tally)
        for model, tally in models.items():
            tokens.add_metric((model, "prompt"), tally.prompt_tokens, tally.since)
            tokens.add_metric((model, "completion"), tally.completion_tokens, tally.since)
            usd.add_metric((model,), tally.usd, tally.since)
        yield from (turns, tokens, usd)
        yield _histogram("silva_turn_seconds", "From request to reply on disk", models, lambda tally: tally.seconds)
        yield _histogram(
            "silva_added_seconds", "Of these, what was spent neither in the model nor in line", models, lambda t: t.own
        )


def _histogram(
    name: str, documentation: str, models: dict[str, Tally], of: Callable[[Tally], Durations]
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, documentation, labels=("model",))
    for model, tally in models.items():
        durations = of(tally)
        family.add_metric((model,), durations.buckets(), durations.total)
    return family
