"""The processes of a run joined by torch.distributed: gloo on processors, nccl between GPUs.

Small values go through gloo on the processor in either case. Gradients are laid into buckets, summed, and laid back, so
that many small tensors cost few messages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as distributed
from torch import Tensor

from silva.errors import UsageError
from silva.train.engines.device import device_of
from silva.train.engines.group import LostTouch
from silva.train.processes import ScaleConfig

BUCKET = 25_000_000
"""Numbers summed at once: 100 MB of float32."""
STARTING = timedelta(minutes=10)
"""How long the processes of one machine may be apart in starting."""


class Joined:
    """See `Group`; made by `join`."""

    def __init__(self) -> None:
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()

    @property
    def leads(self) -> bool:
        """See `Group`."""
        return self.rank == 0

    def told(self, value: Any) -> list[Any]:
        """See `Group`."""
        found: list[Any] = [None] * self.size
        with self._in_touch():
            distributed.all_gather_object(found, value)
        return found

    def agreed(self, asked: bool) -> bool:
        """See `Group`."""
        flag = torch.tensor([int(asked)])
        with self._in_touch():
            distributed.all_reduce(flag, distributed.ReduceOp.MAX)
        return bool(flag.item())

    def sum_up(self, tensors: Sequence[Tensor]) -> None:
        """See `Group`."""
        bucket: list[Tensor] = []
        held = 0
        for tensor in tensors:
            bucket.append(tensor)
            held += tensor.numel()
            if held >= BUCKET:
                self._sum(bucket)
                bucket, held = [], 0
        if bucket:
            self._sum(bucket)

    def _sum(self, bucket: list[Tensor]) -> None:
        flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
        with self._in_touch():
            distributed.all_reduce(flat)
        for tensor, part in zip(bucket, flat.split([tensor.numel() for tensor in bucket]), strict=True):
            tensor.copy_(part.view_as(tensor))

    @contextmanager
    def _in_touch(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # gloo's and nccl's own have no common type
            said = " ".join(str(error).split())
            waited = "timed out" in said.lower() or "timeout" in said.lower()
            raise LostTouch(f"rank {self.rank}: another process does not answer ({said[:120]})", waited) from error


@contextmanager
def join(scale: ScaleConfig, device: str, store: Path | None = None) -> Iterator[Joined]:
    """Join the run's other processes; `RANK` and `WORLD_SIZE` say which this is.

    Args:
        scale: of the run.
        device: of the policy, as configured.
        store: a file in which processes of one machine find each other; None for the address in the environment, as
            torchrun and others that start processes set it.

    Raises:
        UsageError, MissingError: the device cannot be had, or nccl is asked for where it cannot be.
        LostTouch: the others do not come.
    """
    place = device_of(device)
    on_gpu = place.type == "cuda"
    if scale.backend == "nccl" and not (on_gpu and distributed.is_nccl_available()):
        raise UsageError("scale.backend: nccl joins GPUs, and this run computes on the processor: say gloo, or auto")
    if scale.shard and on_gpu and scale.backend == "gloo":
        raise UsageError("scale.shard: on GPUs it needs nccl: say scale.backend: auto")
    backend = "cpu:gloo,cuda:nccl" if on_gpu and scale.backend != "gloo" else "gloo"
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    patience = timedelta(seconds=scale.patience)
    try:
        if store is None:
            distributed.init_process_group(backend, rank=rank, world_size=size, timeout=patience)
        else:
            meeting = distributed.FileStore(str(store), size)  # pyright: ignore[reportPrivateImportUsage]
            meeting.set(f"here/{rank}", "")
            meeting.wait([f"here/{other}" for other in range(size)], STARTING)
            distributed.init_process_group(backend, store=meeting, rank=rank, world_size=size, timeout=patience)
    except RuntimeError as error:
        said = " ".join(str(error).split())[:120]
        raise LostTouch(f"rank {os.environ['RANK']}: the other processes cannot be met ({said})") from error
    try:
        yield Joined()
    finally:
        distributed.destroy_process_group()
