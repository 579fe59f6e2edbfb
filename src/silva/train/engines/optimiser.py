"""AdamW on float32 masters: what is computed in bfloat16 is still summed and updated in float32.

    backward ─▶ gradient of a parameter ─▶ added to its master's, and let go ─▶ clip ─▶ AdamW ─▶ copied back

Where several processes train, each one's gradients are summed with the others' before that. Masters that lie in parts
(`silva.train.engines.sharding`) are updated in parts.

A bfloat16 number has eight bits: an update below a 256th of a weight, or of a gradient already summed, would be lost. A
float32 parameter is its own master. Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, arXiv
1711.05101; masters: Micikevicius et al., Mixed Precision Training, 2018, arXiv 1710.03740.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import Parameter

from silva.errors import UsageError
from silva.train.config import OptimiserConfig
from silva.train.engines.group import Group
from silva.train.engines.sharding import parted_like, whole
from silva.train.output import ENGINE

TENSORS = "engine.safetensors"
"""In a checkpoint: what `Optimiser.tensors` gave, beside the states of random numbers."""
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


class Optimiser:
    """The masters of named parameters, and their update.

    Args:
        parameters: those to train, by name.
        config: AdamW's parameters, the bound on the gradient's norm, and whose moments it goes on with.

    Raises:
        UsageError: `moments` cannot be read, or are of other parameters.
    """

    def __init__(self, parameters: Mapping[str, Parameter], config: OptimiserConfig) -> None:
        self._config = config
        self._parameters = dict(parameters)
        self.masters = {name: _master(parameter) for name, parameter in self._parameters.items()}
        decayed = [master for master in self.masters.values() if master.dim() > 1]
        others = [master for master in self.masters.values() if master.dim() <= 1]
        groups = [{"params": decayed, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
        self._adam = torch.optim.AdamW(
            [group for group in groups if group["params"]],
            lr=0.0,
            betas=config.betas,
            eps=config.epsilon,
            foreach=True,
        )
        if config.moments is not None:
            self._go_on(config.moments)

    def step(self, learning_rate: float) -> tuple[float, bool]:
        """Update the weights and let go of the gradient.

        Returns:
            The gradient's norm before clipping, and whether the update was made: only where the norm is finite.
        """
        bound = self._config.clip if self._config.clip is not None else math.inf
        norm = float(whole(torch.nn.utils.clip_grad_norm_(list(self.masters.values()), bound)))
        applied = math.isfinite(norm)
        if applied:
            for group in self._adam.param_groups:
                group["lr"] = learning_rate
            self._adam.step()
            self._publish()
        for master in self.masters.values():
            master.grad = None
        return norm, applied

    def sum_gradients(self, group: Group) -> None:
        """Put in place of each gradient its sum over all processes; all of them call it."""
        for master in self.masters.values():
            if master.grad is None:
                master.grad = torch.zeros_like(master)
        group.sum_up([master.grad for master in self.masters.values() if master.grad is not None])

    def copy(self) -> dict[str, Tensor]:
        """The weights as they are now, by name."""
        return {name: master.detach().clone() for name, master in self.masters.items()}

    @contextmanager
    def holding(self, weights: Mapping[str, Tensor]) -> Iterator[None]:
        """The parameters hold other weights inside the block, without gradient."""
        if any(hasattr(parameter, "full_tensor") for parameter in self._parameters.values()):
            with self._overwritten(weights):
                yield
            return
        kept = {name: parameter.data for name, parameter in self._parameters.items()}
        try:
            for name, parameter in self._parameters.items():
                parameter.data = weights[name].to(parameter.dtype)
            with torch.no_grad():
                yield
        finally:
            for name, parameter in self._parameters.items():
                parameter.data = kept[name]

    @contextmanager
    def _overwritten(self, weights: Mapping[str, Tensor]) -> Iterator[None]:
        # parts are gathered from the memory they were made in: other weights must be copied there
        kept = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}
        with torch.no_grad():
            try:
                for name, parameter in self._parameters.items():
                    parameter.copy_(weights[name])
                yield
            finally:
                for name, parameter in self._parameters.items():
                    parameter.copy_(kept[name])

    def tensors(self) -> dict[str, Tensor]:
        """All that going on exactly needs: masters and moments, by `kind/name`."""
        found = {f"weight/{name}": master.detach() for name, master in self.masters.items()}
        for name, master in self.masters.items():
            for moment, value in self._adam.state.get(master, {}).items():
                found[f"{moment}/{name}"] = value
        return found

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what `tensors` gave.

        Raises:
            UsageError: a tensor is missing, too many, or of another shape.
        """
        for name, master in self.masters.items():
            saved = tensors.get(f"weight/{name}")
            if saved is None or saved.shape != master.shape:
                raise UsageError(f"checkpoint: it has no {name} of shape {list(master.shape)}: it is of another setup")
        unknown = {key.partition("/")[2] for key in tensors} - set(self.masters)
        if unknown:
            raise UsageError(f"checkpoint: it holds {min(unknown)}, which is not trained here: it is of another setup")
        with torch.no_grad():
            for name, master in self.masters.items():
                master.copy_(parted_like(tensors[f"weight/{name}"], master))
        self._take(tensors)
        self._publish()

    def _go_on(self, checkpoint: Path) -> None:
        try:
            tensors = load_file(checkpoint / ENGINE / TENSORS)
        except (OSError, SafetensorError) as error:
            raise UsageError(f"optimiser.moments: {checkpoint} cannot be read ({error})") from error
        for name, master in self.masters.items():
            saved = tensors.get(f"exp_avg/{name}")
            if saved is None or saved.shape != master.shape:
                raise UsageError(
                    f"optimiser.moments: {checkpoint} has none of {name} of shape {list(master.shape)}: "
                    "it is of another setup"
                )
        self._take(tensors)

    def _take(self, tensors: Mapping[str, Tensor]) -> None:
        for name, master in self.masters.items():
            moments: dict[str, Any] = {
                moment: (value if value.dim() == 0 else parted_like(value, master)).clone()
                for moment in _MOMENTS
                if (value := tensors.get(f"{moment}/{name}")) is not None
            }
            if moments:
                self._adam.state[master] = moments

    def _publish(self) -> None:
        with torch.no_grad():
            for name, master in self.masters.items():
                parameter = self._parameters[name]
                if parameter is not master:
                    parameter.copy_(master)


def _master(parameter: Parameter) -> Parameter:
    if parameter.dtype == torch.float32:
        return parameter
    master = Parameter(parameter.detach().float().clone())
    parameter.register_post_accumulate_grad_hook(_moving_to(master))
    return master


def _moving_to(master: Parameter) -> Callable[[Tensor], None]:
    def move(parameter: Tensor) -> None:
        if parameter.grad is None:
            return
        if master.grad is None:
            master.grad = parameter.grad.float()
        else:
            master.grad += parameter.grad
        parameter.grad = None

    return move
