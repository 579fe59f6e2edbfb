"""The escape suite: nothing that it tries leads out of a sandbox or an agent that is a program, whoever runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from silva.sandbox.system import probe

SUITE = Path(__file__).parents[2] / "benchmarks" / "escape.py"


@pytest.mark.slow
@pytest.mark.skipif(bool(probe().problem), reason="needs bubblewrap (Debian: apt-get install bubblewrap)")
def test_nothing_that_is_tried_leads_out() -> None:
    done = subprocess.run([sys.executable, str(SUITE), "--json"], capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert [row for row in found["attempts"] if row["out"]] == []
    places = {(row["who"], row["where"]) for row in found["attempts"]}
    assert len({where for _, where in places}) == 2 and found["tried"] >= 60 * len(places)
