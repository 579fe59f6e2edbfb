"""Where numbers are computed: this process's processor, or its GPU."""

from __future__ import annotations

import os

import torch

from silva.errors import MissingError, UsageError


def device_of(name: str) -> torch.device:
    """The device of a config's `device`; of several GPUs that of this process's number on its machine.

    Raises:
        MissingError: cuda is asked for, and this torch is built without it.
        UsageError: cuda is asked for and there is no GPU, or there are fewer GPUs than processes.
    """
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.backends.cuda.is_built():
        raise MissingError(
            f"policy.device: cuda: this torch ({torch.__version__}) is built without it; install a build for your GPU "
            "(docs/guides/gpus.md), or say device: cpu"
        )
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        raise UsageError("policy.device: cuda: this machine shows no GPU; check the driver, or say device: cpu")
    place = int(os.environ.get("LOCAL_RANK", "0"))
    if place >= count:
        raise UsageError(
            f"scale.processes: {os.environ.get('LOCAL_WORLD_SIZE', place + 1)} processes on a machine with {count} "
            "GPUs: one each, or say policy.device: cpu"
        )
    torch.cuda.set_device(place)
    return torch.device("cuda", place)
