"""What an episode of the engine costs, in instructions: this checkout against another one, whatever else the machine does.

    python benchmarks/engine_cost.py CHECKOUT [--quick]

Each checkout plays the sums of `engine.py` under valgrind's counter (`apt-get install valgrind`), once few and once many
of them; the difference is what episodes cost without starting and stopping. The model server and the host process are
not counted. The ratio goes to `results/engine_cost.json`; the bar is 1.03.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from peers.server import serving

from report import Measurement, arguments, hand_in, load

ROOT = Path(__file__).parent.parent
BAR = 1.03
POOL = 64
EPISODES, QUICK = (200, 1000), (20, 60)
PLAY = """
import json, sys, lancedb, uvloop
from silva.rollout import RolloutConfig, run_rollout
uvloop.run(run_rollout(RolloutConfig.model_validate(json.loads(sys.argv[1]))))
"""


def instructions(checkout: Path, url: str, key: str, episodes: int) -> int:
    """What a run of so many episodes takes in a checkout.

    Raises:
        RuntimeError: it failed; the message holds the end of its words.
    """
    with tempfile.TemporaryDirectory(prefix="silva-") as scratch:
        tasks = {"split": "train", "limit": episodes}
        given = {"run": "sums", "env": "arithmetic", "model": f"{url}#scripted", "pool": POOL, "tasks": tasks}
        config = json.dumps(given | {"lake": str(Path(scratch) / "lake")})
        counter = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
        own = {"PYTHONPATH": str(checkout / "src"), "PYTHONHASHSEED": "0", "SILVA_API_KEY": key, "OPENAI_API_KEY": key}
        done = subprocess.run(
            [*counter, sys.executable, "-c", PLAY, config],
            cwd=scratch,
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            check=False,
        )
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if done.returncode or found is None:
        raise RuntimeError(f"{checkout.name}: {(done.stdout + done.stderr).strip()[-1000:]}")
    return int(found[1].replace(",", ""))


def commit(checkout: Path) -> str:
    """The commit that is checked out."""
    asked = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    """Count, print, write, judge."""
    parser = arguments(__doc__)
    parser.add_argument("checkout", type=Path, help="what this one is held against")
    given = parser.parse_args()
    (few, many), before = QUICK if given.quick else EPISODES, load()
    rows: list[dict[str, Any]] = []
    with serving() as (url, key):
        for checkout in (given.checkout.resolve(), ROOT):
            counted = [instructions(checkout, url, key, count) for count in (few, many)]
            rows.append({"commit": commit(checkout), "instructions": (counted[1] - counted[0]) // (many - few)})
    ratio = rows[1]["instructions"] / rows[0]["instructions"]
    measured = Measurement(
        name="engine_cost",
        question="Instructions of an episode of one turn, without its host process and the model server",
        bar=f"at most {BAR:g} of what the first one takes",
        ratio=ratio,
        holds=ratio <= BAR,
        rows=rows,
        details={"episodes": [few, many], "pool": POOL},
        quick=given.quick,
    )
    return hand_in(measured, before)


if __name__ == "__main__":
    sys.exit(main())
