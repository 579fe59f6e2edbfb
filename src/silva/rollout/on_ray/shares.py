"""Plain tasks over a cluster, for readers: what is to be read is cut into shares, each is one task, answers in order.

items ─▶ cut (neighbours that belong together stay so) ─▶ shares ─▶ a task each ─▶ answers, in the items' order
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from silva.errors import UnreachableError
from silva.rollout.config import RayConfig
from silva.rollout.on_ray.cluster import Gone, connected
from silva.rollout.on_ray.letters import Refusal
from silva.rollout.on_ray.placement import places

T = TypeVar("T")


def cut(items: Sequence[T], count: int, together: Callable[[T], str], weight: Callable[[T], float]) -> list[list[T]]:
    """At most `count` shares of about equal weight, in order; neighbours of one `together` are in one share."""
    bundles: list[list[T]] = []
    for item in items:
        if bundles and together(bundles[-1][0]) == together(item):
            bundles[-1].append(item)
        else:
            bundles.append([item])
    weights = [sum(map(weight, bundle)) for bundle in bundles]
    whole = sum(weights) or 1.0
    shares: list[list[T]] = [[] for _ in range(count)]
    before = 0.0
    for bundle, own in zip(bundles, weights, strict=True):
        middle = (before + own / 2) / whole
        shares[min(int(middle * count), count - 1)] += bundle
        before += own
    return [share for share in shares if share]


def answers(
    config: RayConfig, cutting: Callable[[int], list[list[T]]], function: Callable[..., Any], *arguments: Any
) -> Iterator[Any]:
    """What `function(*arguments, share)` gives for every share, the first share's first.

    Args:
        config: the cluster; `workers` is how many shares there are (None: as many as its CPUs have room for).
        cutting: gives the shares for so many workers.
        function: of a module that every node can import; a `Refusal` that it returns is raised.
        arguments: what it gets before its share.

    Raises:
        MissingError, UnreachableError, UsageError: as `silva.rollout.on_ray.crew.open_crew`.
    """
    with connected(config) as cluster:
        room = sum(places(cluster.nodes(), config.cpus).values())
        shares = cutting(config.workers or room)
        tasks = [cluster.task(function, config.cpus, *arguments, share) for share in shares]
        for task in tasks:
            try:
                answer = cluster.result(task)
            except Gone as gone:
                raise UnreachableError(f"the Ray cluster lost a share four times ({gone}); run it again") from gone
            if isinstance(answer, Refusal):
                raise answer.error()
            yield answer
