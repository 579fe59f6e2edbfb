"""Estimates with their 95 % intervals, for attempts that come in clusters (all attempts at one task).

Attempts at one task are alike: sixteen tries at a task tell less than one try at sixteen tasks. So every interval here
is by cluster, and with one attempt per task it is the textbook one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist, fmean

from silva.tree import Record

_Z = NormalDist().inv_cdf(0.975)
_ROUNDING = 1e-9
"""Values that differ by less differ by arithmetic: 0.1 + 0.2 against 0.3."""


class Interval(Record, frozen=True, kw_only=True):
    """An estimate with its 95 % interval. `n` counts observations, `clusters` the tasks they belong to.

    `low` and `high` are None when one cluster alone cannot say how clusters differ, or when all agree on a value that
    might lie anywhere.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    clusters: int

    def shifted(self, by: float) -> Interval:
        """The interval of `value + by`, for an exactly known `by`."""
        return Interval(
            value=self.value + by,
            low=None if self.low is None else self.low + by,
            high=None if self.high is None else self.high + by,
            n=self.n,
            clusters=self.clusters,
        )


def proportion(clusters: Sequence[Sequence[bool]]) -> Interval | None:
    """A success rate with its 95 % interval; None without observations.

    Wilson's score interval (Wilson 1927) on the effective sample size `n / deff`, where the design effect `deff` is the
    ratio of the cluster-robust variance of the rate to the binomial one (Kish 1965; Korn and Graubard 1998 for the use
    in score intervals, with their correction for few clusters). It is held between 1 (no credit for luck) and the mean
    cluster size (attempts at a task wholly alike). With one attempt per task it is plain Wilson. Where every attempt
    agrees the variance says nothing, and the cautious end is taken: each task counts once.

    Args:
        clusters: per task, whether each attempt succeeded. Empty ones are ignored.
    """
    filled = [cluster for cluster in clusters if cluster]
    n, count = sum(map(len, filled)), len(filled)
    if not n:
        return None
    rate = sum(map(sum, filled)) / n
    low, high = _wilson(rate, n / _design_effect(filled, rate, n))
    return Interval(value=rate, low=low, high=high, n=n, clusters=count)


def mean(clusters: Sequence[Sequence[float]], *, within: tuple[float, float] | None = None) -> Interval | None:
    """A mean with its 95 % interval from the cluster-robust variance (Student's t on `clusters - 1`); None if empty.

    Where all tasks agree the variance says nothing, and the interval is the agreement's: had more than a share `q` of
    all tasks said otherwise, so many would agree in fewer than 2.5 % of draws (Clopper and Pearson 1934 for 0 of
    `clusters`: `(1 - q)^clusters = 0.025`), and those that do lie at worst at an end of the range. With no range known
    they may lie anywhere, and there is no interval.

    Args:
        clusters: per task, the value of each attempt. Empty ones are ignored.
        within: the range the values cannot leave, such as (0, 1) for scores and (-1, 1) for their differences: the
            interval is cut there.
    """
    filled = [cluster for cluster in clusters if cluster]
    n, count = sum(map(len, filled)), len(filled)
    if not n:
        return None
    value = sum(map(sum, filled)) / n
    if count < 2:
        return Interval(value=value, low=None, high=None, n=n, clusters=count)
    margin = student(count - 1) * sqrt(_robust_variance(filled, value, n))
    agree = margin <= _ROUNDING * max(1.0, abs(value))
    if within is None:
        low, high = (None, None) if agree else (value - margin, value + margin)
    else:
        least, most = within
        value = min(max(value, least), most)  # by rounding alone it can lie beyond
        low, high = _agreement(value, least, most, count) if agree else (value - margin, value + margin)
        low, high = max(least, low), min(most, high)
    return Interval(value=value, low=low, high=high, n=n, clusters=count)


def student(freedom: int) -> float:
    """The 97.5 % quantile of Student's t with `freedom` degrees (within 0.005; Abramowitz and Stegun 26.7.5)."""
    if freedom == 1:
        return 12.7062
    if freedom == 2:
        return 4.30265
    z, v = _Z, float(freedom)
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * v**4)
    )


def quantile(values: Sequence[float], share: float) -> float:
    """The `share` quantile by linear interpolation (0 for no values)."""
    if not values:
        return 0.0
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _design_effect(clusters: Sequence[Sequence[bool]], rate: float, n: int) -> float:
    size = fmean(map(len, clusters))
    if size == 1:
        return 1.0
    binomial = rate * (1 - rate) / n
    if binomial == 0 or len(clusters) < 2:
        return size
    effect = _robust_variance(clusters, rate, n) / binomial
    few = (student(len(clusters) - 1) / _Z) ** 2  # the variance itself is uncertain when tasks are few
    return min(max(effect * few, 1.0), size)


def _robust_variance(clusters: Sequence[Sequence[float]], value: float, n: int) -> float:
    count = len(clusters)
    return count / (count - 1) * sum((sum(c) - value * len(c)) ** 2 for c in clusters) / n**2


def _agreement(value: float, least: float, most: float, count: int) -> tuple[float, float]:
    otherwise = 1 - 0.025 ** (1 / count)
    return value - otherwise * (value - least), value + otherwise * (most - value)


def _wilson(rate: float, n: float) -> tuple[float, float]:
    spread = _Z**2 / n
    centre = (rate + spread / 2) / (1 + spread)
    margin = _Z * sqrt(rate * (1 - rate) / n + spread / (4 * n)) / (1 + spread)
    # At 0 and 1 the end is exact; arithmetic would leave 1e-17 there.
    return (0.0 if rate == 0 else max(0.0, centre - margin)), (1.0 if rate == 1 else min(1.0, centre + margin))
