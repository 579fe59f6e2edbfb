"""One thing that a machine can do, can do in part, or cannot: a line of `silva doctor`."""

from __future__ import annotations

from enum import StrEnum

from silva.tree import Record


class Whether(StrEnum):
    """How far it is there."""

    YES = "yes"
    PART = "part"
    NO = "no"


class Finding(Record, frozen=True, kw_only=True):
    """One line.

    Attributes:
        topic: what it belongs to.
        name: what was looked for.
        whether: how far it is there.
        said: what was found.
        purpose: what it is for.
        mend: what to install or to change; "" where nothing is amiss.
    """

    topic: str
    name: str
    whether: Whether
    said: str
    purpose: str
    mend: str = ""


def found(topic: str, name: str, there: bool, said: str, purpose: str, mend: str) -> Finding:
    """A line of something that is there or is not."""
    whether = Whether.YES if there else Whether.NO
    return Finding(topic=topic, name=name, whether=whether, said=said, purpose=purpose, mend="" if there else mend)
