"""What all tests share: their files' order, how properties are tried, and the word by which they meet Ray's clusters.

A property is tried on the same examples each time, so that a change is told from a lucky draw, and against no clock;
`SILVA_HYPOTHESIS=search` draws others each time (`make test WEEKLY=1` does).

Ray reads its token's mode when it is first imported (other libraries import it by the way) and the token once in a
process, so both stand before any test module is loaded.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("search", settings.get_profile("steady"), derandomize=False)
settings.load_profile(os.environ.get("SILVA_HYPOTHESIS", "steady"))

os.environ["RAY_AUTH_MODE"] = "token"
os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)

LONGEST = (
    "train/test_scale_processes.py",
    "docs/test_pages_run.py",
    "loops/test_flywheel_run.py",
    "rollout/test_real_programs.py",
    "loops/test_apollo_loop.py",
    "train/test_online_gateway.py",
    "envs/test_desktop.py",
    "cli/test_rollout_command.py",
)
"""Files of few tests that take more than a minute: they begin first, so that no process waits for one in the end."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, then those of most tests; within a file the order stays."""
    tests = Counter(item.path for item in items)
    place = {path: next((n for n, end in enumerate(LONGEST) if path.match(end)), len(LONGEST)) for path in tests}
    items.sort(key=lambda item: (place[item.path], -tests[item.path]))
