"""From a kind and an endpoint to a native backend, and from a model's source to an exact model."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from silva.errors import UsageError
from silva.models.calling import CallOptions
from silva.models.endpoint import Endpoint
from silva.models.exact.backend import NativeBackend
from silva.models.exact.model import ExactModel
from silva.models.exact.renderer import Renderer
from silva.models.exact.sglang import SglangBackend
from silva.models.exact.source import open_renderer
from silva.models.exact.vllm import SilvaBackend, VllmBackend

KINDS = {"vllm": VllmBackend, "sglang": SglangBackend, "silva": SilvaBackend}
"""What speaks token ids."""


def open_backend(kind: str, endpoint: Endpoint, **options: Unpack[CallOptions]) -> NativeBackend:
    """The backend of a kind: `vllm`, `sglang` or `silva`. Nothing is asked of the server yet.

    Raises:
        UsageError: the kind is not known, or the endpoint's url cannot be used.
    """
    backend = KINDS.get(kind)
    if backend is None:
        raise UsageError(f"backend kind {kind!r} is not known; those of token ids are {', '.join(KINDS)}")
    return backend(endpoint, **options)


def open_exact(
    source: str | Path | Renderer,
    kind: str,
    endpoint: Endpoint,
    *,
    remembers: bool = True,
    **options: Unpack[CallOptions],
) -> ExactModel:
    """An exact model; the caller closes it.

    Args:
        source: what writes its prompts, as in `open_renderer`, or a renderer.
        kind: as in `open_backend`.
        endpoint: where it is served, and its prices.
        remembers: as in `ExactModel`.
        options: as in `CallOptions`.

    Raises:
        UsageError, MissingError: see `open_renderer` and `open_backend`.
    """
    renderer = open_renderer(source) if isinstance(source, str | Path) else source
    backend = open_backend(kind, endpoint, **options)
    return ExactModel(renderer, backend, priced=endpoint, remembers=remembers)
