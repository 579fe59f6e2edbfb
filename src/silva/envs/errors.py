"""What can go wrong with an environment, filed by the boundary at which it arose.

| code | boundary | meaning |
|---|---|---|
| env.raised | environment | one of its calls raised |
| env.timeout | environment | one of its calls did not return in time |
| env.garbage | environment | it returned something that is not a record of the protocol, or too large a one |
| env.snapshot | environment | its state could not be kept, or a kept state could not be taken up |
| env.memory | infrastructure | it asked for more memory than its host may have |
| host.died | infrastructure | the host process ended under the call (often another instance's doing) |
| host.spawn | infrastructure | a host could not be started |
| host.busy | infrastructure | no instance came free within the lease's timeout |
"""

from __future__ import annotations

from silva.errors import Exit, SilvaError
from silva.tree import Boundary, Failure

_BOUNDARIES = {
    "env.raised": Boundary.ENVIRONMENT,
    "env.timeout": Boundary.ENVIRONMENT,
    "env.garbage": Boundary.ENVIRONMENT,
    "env.snapshot": Boundary.ENVIRONMENT,
    "env.memory": Boundary.INFRASTRUCTURE,
    "host.died": Boundary.INFRASTRUCTURE,
    "host.spawn": Boundary.INFRASTRUCTURE,
    "host.busy": Boundary.INFRASTRUCTURE,
}


class EnvError(SilvaError):
    """An environment or its host failed; `failure()` is how a trajectory records it."""

    code = Exit.INCOMPLETE

    def __init__(self, kind: str, message: str, *, retryable: bool | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.boundary = _BOUNDARIES[kind]
        self.retryable = self.boundary is Boundary.INFRASTRUCTURE if retryable is None else retryable

    def failure(self) -> Failure:
        """The failure as a record."""
        return Failure(boundary=self.boundary, code=self.kind, message=str(self), retryable=self.retryable)
