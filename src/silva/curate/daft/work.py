"""Work: what is done to some rows at a time, wherever it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa


class Work(Protocol):
    """A function of rows. It is pickled, so it holds plain values and opens what it needs when it is first called.

    `reads` names the columns it is given, `kind` is the type of the one it makes.
    """

    @property
    def reads(self) -> Sequence[str]:
        """The columns, in the order in which they are given."""
        ...

    @property
    def kind(self) -> pa.DataType:
        """The type of what it makes."""
        ...

    def __call__(self, *columns: list[Any]) -> pa.Array:
        """A value for each of some rows."""
        ...
