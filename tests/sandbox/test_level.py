"""That sandboxes are tested at all where they must be: elsewhere their tests are skipped."""

from __future__ import annotations

import os
import shutil

import pytest

from silva.sandbox.system import probe

REQUIRED = bool(os.environ.get("CI")) or (os.geteuid() == 0 and shutil.which("bwrap") is not None)


@pytest.mark.skipif(not REQUIRED, reason="a machine of one's own may lack bubblewrap")
def test_a_machine_that_checks_changes_has_the_best_isolation() -> None:
    assert shutil.which("bwrap") is not None, "install bubblewrap here: its tests would all be skipped"
    assert probe().problem == "", "its tests would all be skipped"
