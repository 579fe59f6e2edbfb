"""One of a run's processes, started by the agent: it trains its share and writes how it ended.

    python -m silva.train.rank FOLDER     FOLDER/run.json ─▶ join the others ─▶ train ─▶ FOLDER/rank-N.json

Only the first prints: progress, to standard output. A file FOLDER/stop asks all to end after the step under way. A rank
whose agent is gone ends at once: nobody would be left to end it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Never

from silva.errors import SilvaError
from silva.train.config import TrainConfig
from silva.train.engines.group import LostTouch
from silva.train.engines.open import share_cores
from silva.train.trainer import TrainResult

STOP = "stop"


def main(folder: Path) -> Never:
    """Train, and end the process with the exit code."""
    share_cores()
    threading.Thread(target=_end_with_agent, args=(os.getppid(),), daemon=True).start()
    signal.signal(signal.SIGTERM, _leave)
    from torch.distributed.elastic.multiprocessing.errors import record

    code = record(_train)(folder) or 0
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is written. gloo's threads abort some interpreters at their end, one in about fifty.
    os._exit(code)


def file_of(folder: Path, rank: int) -> Path:
    """Where a rank writes how it ended."""
    return folder / f"rank-{rank}.json"


def _train(folder: Path) -> int:
    from silva.train.launch import train_in
    from silva.train.scale.agent import RUN, STORE
    from silva.train.scale.joined import join

    said = json.loads((folder / RUN).read_text(encoding="utf-8"))
    config = TrainConfig.model_validate(said["config"])
    rank = int(os.environ["RANK"])
    try:
        with join(config.scale, config.policy.device, folder / STORE if config.scale.nodes == 1 else None) as group:
            result = train_in(
                group,
                config,
                resume=said["resume"],
                out=sys.stdout if group.leads and said["tell"] else None,
                stopping=(folder / STOP).exists,
            )
            group.told("done")  # none leaves while the first still writes
    except SilvaError as error:
        lost = isinstance(error, LostTouch)
        ended = {"error": str(error), "code": error.code, "lost": lost, "waited": lost and error.waited}
        _write(file_of(folder, rank), ended)
        return error.code
    _write(file_of(folder, rank), {"result": _as_json(result)})
    return 0


def _as_json(result: TrainResult) -> dict[str, Any]:
    paths = {"policy": result.policy, "checkpoint": result.checkpoint}
    said: dict[str, Any] = {"status": result.status, "step": result.step, "reason": result.reason}
    return said | {name: None if path is None else str(path) for name, path in paths.items()}


def _write(file: Path, said: dict[str, Any]) -> None:
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(said), encoding="utf-8")
    draft.replace(file)


def _leave(number: int, frame: Any) -> None:
    sys.exit(128 + number)


def _end_with_agent(agent: int) -> None:
    while os.getppid() == agent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
