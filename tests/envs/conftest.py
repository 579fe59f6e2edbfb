from pathlib import Path

import pytest
from desktop_acts import PATIENCE

from silva.envs import EnvironmentEntry, HostPool, Registry
from silva.envs.gyms.desktop import packages
from silva.envs.install import interpreter
from silva.errors import MissingError

ROGUE = Path(__file__).with_name("rogue.py")


@pytest.fixture
def rogue():
    """Make a pool over the misbehaving environment: `async with rogue(step_timeout=1) as pool`."""

    def make(kind: str = "Rogue", **how) -> HostPool:
        return HostPool(Registry.load().entry(f"{ROGUE}:{kind}"), **how)

    return make


@pytest.fixture
def rogue_entry() -> EnvironmentEntry:
    return Registry.load().entry(f"{ROGUE}:Rogue")


@pytest.fixture(scope="session")
def entry():
    """The desktop, where it is installed."""
    found = Registry.load().entry("desktop")
    try:
        interpreter(found)
        packages.check()
    except MissingError as error:
        pytest.skip(str(error))
    return found


@pytest.fixture
def pool(entry, tmp_path):
    """Make a pool of desktops: `async with pool() as hosts, hosts.lease() as env`."""

    def make(**options) -> HostPool:
        return HostPool(entry, step_timeout=PATIENCE, options={"snapshots": str(tmp_path / "kept"), **options})

    return make
