"""A backend of real sandboxes for each test, and proof that nothing of it is left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from silva.errors import MissingError
from silva.sandbox.namespaces import Namespaces


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[Namespaces]:
    """Sandboxes of namespaces; after the test no process, control group or folder may be left."""
    state = tmp_path / "state"
    try:
        opened = await Namespaces.open(state=state)
    except MissingError as error:
        pytest.skip(str(error))
    server, groups = opened.spawner.pid, opened.groups.paths
    async with opened:
        yield opened
    assert left(state, server, groups) == []


def left(state: Path, server: int, groups: tuple[str, ...]) -> list[Path]:
    """What a closed backend left: its fork server, control groups, folders."""
    found = [path for path in (Path(f"/proc/{server}"), *map(Path, groups)) if path.exists()]
    return [*found, *state.iterdir()]
