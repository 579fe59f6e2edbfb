"""Samples that must fit into a context. An action is whole or it is not there: none is cut in half.

    sample ─▶ cut behind the last action that ends within the limit ─▶ a shorter sample, if any of it still carries loss

Only the end is cut: without its beginning a sample would not be what the model saw.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from silva.train.sample import Sample, SampleError

Overlong = Literal["refuse", "truncate", "drop"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fitted:
    """What fits: `samples` in order, and how many of them were `truncated`, how many more `dropped`."""

    samples: tuple[Sample, ...]
    truncated: int = 0
    dropped: int = 0


def truncate(sample: Sample, limit: int) -> Sample | None:
    """The sample without what lies beyond `limit` ids, ending with a whole action; None where nothing in it would
    carry loss. A sample that fits is returned as it is."""
    if len(sample) <= limit:
        return sample
    end = max((stop for _, stop in sample.spans() if stop <= limit), default=0)
    if not sample.mask[:end].any():
        return None
    actions = tuple(action for action in sample.actions if action.stop <= end)
    return replace(
        sample,
        ids=sample.ids[:end].copy(),
        mask=sample.mask[:end].copy(),
        drawn=sample.drawn[:end].copy(),
        logprobs=sample.logprobs[:end].copy(),
        advantages=sample.advantages[:end].copy(),
        weights=sample.weights[:end].copy(),
        actions=actions,
        images=tuple(image for image in sample.images if image.position < end),
        versions=tuple(dict.fromkeys(a.version for a in actions if a.version)) if actions else sample.versions,
        attributes={**sample.attributes, "truncated_from": sample.attributes.get("truncated_from", len(sample))},
    )


def fit(samples: Iterable[Sample], limit: int, overlong: Overlong = "refuse") -> Fitted:
    """The samples, none longer than `limit` ids.

    Args:
        samples: any.
        limit: the most ids a sample may have, at least 1.
        overlong: what becomes of a longer one: `refuse` it, `truncate` it (dropped where no whole action with loss is
            left), or `drop` it.

    Raises:
        SampleError: a sample is longer and is to be refused; it is named.
        ValueError: the limit is below 1.
    """
    if limit < 1:
        raise ValueError(f"limit {limit}: a sample has at least one id")
    kept: list[Sample] = []
    truncated = dropped = 0
    for sample in samples:
        if len(sample) <= limit:
            kept.append(sample)
            continue
        if overlong == "refuse":
            raise SampleError(
                f"{sample.name}: {len(sample)} ids, the context holds {limit}; raise the limit, or truncate or drop "
                "what is too long"
            )
        shorter = truncate(sample, limit) if overlong == "truncate" else None
        if shorter is None:
            dropped += 1
        else:
            truncated += 1
            kept.append(shorter)
    return Fitted(samples=tuple(kept), truncated=truncated, dropped=dropped)
