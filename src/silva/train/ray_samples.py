"""Samples of a lake, read by the workers of a Ray cluster: `silva train samples --on ray`.

    trajectories, in order ─▶ shares (whole trees) ─▶ a worker each: opens the lake, reads ─▶ samples as bytes, in order

The lake must lie where every node sees it: a folder that all share, or an object store. What is asked of it is decided
here, before the workers begin (which trajectories, what supervision masks), so that they give what one process gives.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from silva.errors import SilvaError
from silva.lake import Lake
from silva.rollout.config import RayConfig
from silva.rollout.on_ray.letters import Refusal
from silva.rollout.on_ray.shares import answers, cut
from silva.train.lake_samples import Given, Refused, each_in_turn
from silva.train.sample import Sample
from silva.train.stretch import Reading
from silva.tree import Trajectory


@dataclass(frozen=True, kw_only=True)
class RayReader:
    """Reads trajectories on a cluster (`silva.train.lake_samples.Read`).

    Args:
        ray: the cluster, and among how many workers to split.
        location: of the lake, a folder's as it is here.
        version: a tag of it; None for the lake as it is.
    """

    ray: RayConfig
    location: str
    version: str | None = None

    def __call__(self, lake: Lake, trajectories: Sequence[Trajectory], reading: Reading) -> Iterator[Given]:
        """What each trajectory gives, in order.

        Raises:
            MissingError, UnreachableError, UsageError: the cluster cannot be had.
            StoreError: a node does not see the lake.
        """
        where = self.location if "://" in self.location else str(Path(self.location).resolve())

        def cutting(count: int) -> list[list[Trajectory]]:
            return cut(trajectories, count, lambda each: each.tree_id, lambda each: 1.0 + each.turns)

        for share in answers(self.ray, cutting, read_share, where, self.version, reading):
            for given in share:
                yield given if isinstance(given, Refused) else [Sample.from_bytes(sample) for sample in given]


def read_share(
    location: str, version: str | None, reading: Reading, trajectories: Iterable[Trajectory]
) -> list[list[bytes] | Refused] | Refusal:
    """A worker's part: what each of these trajectories gives, samples encoded."""
    try:
        with Lake.open(location, mode="read", version=version) as lake:
            given = each_in_turn(lake, list(trajectories), reading)
            return [each if isinstance(each, Refused) else [sample.to_bytes() for sample in each] for each in given]
    except SilvaError as error:
        hint = "; a lake that Ray reads lies where every node sees it"
        return Refusal(code=int(error.code), text=f"on {platform.node()}: {error}{hint}")
