"""The tools of a home: Silva's own, those of packages, and what a person has promoted there."""

from __future__ import annotations

from pathlib import Path

from silva.elf.derived import Assets, tool_of
from silva.elf.toolbox import Toolbox, own, packaged


def toolbox(home: Path | None = None, *, candidates: bool = False) -> Toolbox:
    """All tools.

    Args:
        home: of the engine, for assets; None leaves them out.
        candidates: whether derived tools that nobody has promoted are there too: for the pilot that derived them.

    Raises:
        UsageError: two tools have one name, or a package's cannot be loaded.
        StoreError: an asset cannot be read.
    """
    tools = [*own(), *packaged()]
    base = {each.card.name: each for each in tools}
    if home is not None:
        kept = Assets(home)
        latest = {each.name: each for each in kept.assets() if each.kind != "pipeline"}
        if candidates:
            latest |= {each.name: each for each in kept.derived()}
        tools += [tool_of(each, base) for each in latest.values() if each.name not in base]
    return Toolbox(tools)
