"""How an algorithm's parameters are checked: unknown names, NaN and values out of range are refused."""

from __future__ import annotations

from pydantic import ConfigDict

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


def constant_given(normalise: str, constant: int | None) -> None:
    """Hold `normalise` and `constant` together.

    Raises:
        ValueError: the one asks for the other, or has no use for it.
    """
    if normalise == "constant" and constant is None:
        raise ValueError("normalise: constant needs `constant`, the number of tokens to divide a sequence by")
    if normalise != "constant" and constant is not None:
        raise ValueError(f"`constant` has no use with normalise: {normalise}")
