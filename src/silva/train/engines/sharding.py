"""Weights in parts, one a process, for models that one GPU does not hold: PyTorch's FSDP2.

    layer by layer: gather its weights ─▶ compute ─▶ let go      backward: gather, compute, sum gradients into the parts

Masters and moments exist in parts only: float32 parts are gathered as the format that is computed in, gradients are
summed in float32. Source: Zhao et al., PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel, 2023, arXiv
2304.11277.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor


def shard(module: Any, layers: Iterable[Any], device: torch.device, dtype: torch.dtype) -> None:
    """Put a module's parameters into parts, in place; afterwards they are float32 and on the device.

    Args:
        module: whose `forward` is the only door to its parameters.
        layers: of it; each is gathered and let go by itself.
        device: of this process.
        dtype: what is computed in.
    """
    from torch.distributed import get_world_size
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(device.type, (get_world_size(),))
    mixed = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    for layer in layers:
        fully_shard(layer.float(), mesh=mesh, mp_policy=mixed)
    fully_shard(module.float(), mesh=mesh, mp_policy=mixed, reshard_after_forward=True)
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.set_gradient_divide_factor(1.0)  # losses are divided by the whole step's totals already
            part.set_force_sum_reduction_for_comms(True)


def whole(tensor: Tensor) -> Tensor:
    """The whole of a tensor that lies in parts; others as they are. All processes call it."""
    gather = getattr(tensor, "full_tensor", None)
    return tensor if gather is None else gather()


def wholes(tensors: Mapping[str, Tensor], keep: bool) -> dict[str, Tensor]:
    """Whole tensors by name, those from parts on the processor. All processes call it; without `keep` none is held."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        in_parts = hasattr(tensor, "full_tensor")
        full = whole(tensor)
        if keep:
            found[name] = full.cpu() if in_parts else full
    return found


def parted_like(full: Tensor, other: Tensor) -> Tensor:
    """`full` cut into parts as `other` is, on its device; whole where `other` is."""
    if not hasattr(other, "full_tensor"):
        return full.to(other.device)
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(other, DTensor)
    return distribute_tensor(
        full.to(other.device), device_mesh=other.device_mesh, placements=other.placements, src_data_rank=None
    )
