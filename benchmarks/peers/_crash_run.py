"""One leg of the crash benchmark: `run_rollout`, telling on a file which nodes were acknowledged.

Arguments: the configuration as JSON, `new` or `resume`, the file. A line is written when the future of the lake's `submit` is
done, that is, when the engine may believe the record kept; a line once written outlives `kill -9`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parent.parent)  # this folder holds a module of the same name as the package

import uvloop  # noqa: E402

from silva.lake import Lake  # noqa: E402
from silva.rollout import RolloutConfig, run_rollout  # noqa: E402
from silva.tree import Node, Trajectory  # noqa: E402

config, resume = RolloutConfig.model_validate(json.loads(sys.argv[1])), sys.argv[2] == "resume"
told = os.open(sys.argv[3], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
submit = Lake.submit


def told_submit(self: Lake, records):
    """The lake's own submit, telling the ids once they are acknowledged and before who waits for them goes on."""
    ids = [record.id for record in records if isinstance(record, Node | Trajectory)]

    def tell(future) -> None:
        if ids and not future.cancelled() and future.exception() is None:
            os.write(told, "".join(f"{one}\n" for one in ids).encode())

    future = submit(self, records)
    future.add_done_callback(tell)
    return future


Lake.submit = told_submit  # type: ignore[method-assign]
result = uvloop.run(run_rollout(config, resume=resume))
raise SystemExit(int(result.exit_code))
