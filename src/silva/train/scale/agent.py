"""The agent that starts a machine's ranks and watches them: torchrun's own, through its API.

    python -m silva.train.scale.agent FOLDER     FOLDER/run.json ─▶ ranks ─┬▶ exit code 0
                                                                            └▶ one died: the others are ended, and
                                                                               FOLDER/failures.json says which died how

It ends its ranks and itself when its standard input closes: whoever started it is gone. On one machine ranks and agent
meet in files of FOLDER and talk over loopback; nothing listens for other machines.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from silva.train.processes import ScaleConfig

RUN, FAILURES, STORE = "run.json", "failures.json", "store"
_ROOM = 20
"""Seconds that ranks are given to end before they are killed."""
_LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


def main(folder: Path) -> int:
    """Start the ranks and wait for them; return the exit code."""
    scale = ScaleConfig.model_validate(
        json.loads((folder / RUN).read_text(encoding="utf-8"))["config"].get("scale", {})
    )
    threading.Thread(target=_end_with_standard_input, daemon=True).start()
    try:
        elastic_launch(_launch(scale, folder), sys.executable)("-P", "-m", "silva.train.rank", str(folder))
    except ChildFailedError as error:
        failures = [_told(rank, failure) for rank, failure in sorted(error.failures.items())]
        (folder / FAILURES).write_text(json.dumps(failures), encoding="utf-8")
        return 1
    except SignalException as error:
        return 128 + int(error.sigval)
    return 0


def _launch(scale: ScaleConfig, folder: Path) -> LaunchConfig:
    common: dict[str, Any] = {
        "min_nodes": scale.nodes,
        "max_nodes": scale.nodes,
        "nproc_per_node": scale.processes,
        "run_id": "silva",
        "rdzv_backend": "c10d",
        "max_restarts": 0,
        "monitor_interval": 0.1,
        "shutdown_timeout": _ROOM,
    }
    if scale.nodes > 1:
        return LaunchConfig(rdzv_endpoint=scale.rendezvous or "", rdzv_configs={"timeout": scale.patience}, **common)
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        os.environ.setdefault(name, _LOOPBACK)
    return LaunchConfig(
        rdzv_endpoint=str(folder / "rendezvous"),
        rdzv_configs={"store_type": "file"},
        local_addr="127.0.0.1",
        **common,
    )


def _told(rank: int, failure: Any) -> dict[str, Any]:
    said = failure.message if failure.error_file != "<N/A>" else ""
    died_of = signal.Signals(-failure.exitcode).name if failure.exitcode < 0 else ""
    return {"rank": rank, "code": failure.exitcode, "signal": died_of, "said": str(said), "at": failure.timestamp}


def _end_with_standard_input() -> None:
    os.read(sys.stdin.fileno(), 1)  # unbuffered: a lock held here would break the interpreter's end
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
