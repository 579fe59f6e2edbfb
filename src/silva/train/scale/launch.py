"""Starting a run's processes, waiting for them, and saying in one line how they ended.

    config ─▶ a folder: run.json ─▶ agent ─▶ ranks ─┬▶ rank-N.json: the result, or a rank's own line
         stopping() ─▶ stop                          └▶ failures.json: a rank that died without a word

Of several ranks that ended badly the one with a word of its own counts, then one that waited in vain, then one that was
killed, then one with a fault, and last those that only lost touch. What they write besides is kept as
OUTPUT/processes.log where it tells more than the line.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TextIO

from silva.errors import Exit, SilvaError
from silva.train.config import TrainConfig
from silva.train.engines.open import require
from silva.train.output import CHECKPOINTS
from silva.train.trainer import TrainResult

LOG = "processes.log"
_ROOM = 40
"""Seconds the agent is given to end its ranks before it is killed; more than it gives them."""
_ENDED = (-signal.SIGTERM, 128 + signal.SIGTERM)
"""Exit codes of ranks that the agent ended because of another."""


def train_in_processes(
    config: TrainConfig, *, resume: bool, out: TextIO | None, stopping: Callable[[], bool]
) -> TrainResult:
    """Train in `scale.processes` processes of this machine, which are all of them or this machine's part.

    Args:
        config: of the run.
        resume: go on from the last checkpoint.
        out: where progress is told; None for nowhere.
        stopping: asked several times a second; True ends the run after the step under way.

    Raises:
        MissingError: a library is not installed.
        SilvaError: a process ended badly; its own error where it gave one. The last checkpoint stays.
    """
    require("torch", "transformers", "peft", "safetensors")
    with tempfile.TemporaryDirectory(prefix="silva-ranks-") as name:
        folder = Path(name)
        values = config.model_dump(mode="json", exclude_unset=True) | {"run": config.run}
        said = {"config": values, "resume": resume, "tell": out is not None}
        (folder / "run.json").write_text(json.dumps(said), encoding="utf-8")
        with (folder / LOG).open("wb") as log:
            code = _watched(folder, log, out, stopping)
        return ended(config, folder, code)


def _watched(folder: Path, log: IO[bytes], out: TextIO | None, stopping: Callable[[], bool]) -> int:
    """Run the agent to its end; return its exit code."""
    agent = subprocess.Popen(
        [sys.executable, "-P", "-m", "silva.train.scale.agent", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        start_new_session=True,  # Ctrl-C is this process's to answer
    )
    telling = threading.Thread(target=_tell, args=(agent.stdout, out))
    telling.start()
    try:
        while agent.poll() is None:
            if stopping():
                (folder / "stop").touch()
            time.sleep(0.05)
    finally:
        if agent.poll() is None:
            agent.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                agent.wait(_ROOM)
            agent.kill()
        telling.join()
        if agent.stdin is not None:
            agent.stdin.close()
    return agent.wait()


def _tell(lines: IO[str] | None, out: TextIO | None) -> None:
    for line in lines or ():
        if out is not None:
            out.write(line)
            out.flush()


def ended(config: TrainConfig, folder: Path, code: int) -> TrainResult:
    """How a run's processes ended, from what they and their agent left in the folder.

    Raises:
        SilvaError: badly; of several reasons the first by the module's order.
    """
    ranks = {int(file.stem.removeprefix("rank-")): json.loads(file.read_text()) for file in folder.glob("rank-*.json")}
    if code == 0 and ranks:
        return _result(ranks[min(ranks)]["result"])
    said = [(rank, ranks[rank]) for rank in sorted(ranks) if "error" in ranks[rank]]
    for _, error in said:
        if not error["lost"]:
            raise SilvaError(error["error"], Exit(error["code"]))
    failures = folder / "failures.json"
    dead: list[dict[str, Any]] = json.loads(failures.read_text(encoding="utf-8")) if failures.exists() else []
    dead.sort(key=lambda failure: failure["code"] in _ENDED)
    kept = _kept(config)
    for _, error in said:
        if error["waited"]:  # whom it waited for was then killed by the agent
            raise SilvaError(f"{error['error']}; {kept}", Exit.INCOMPLETE)
    for failure in dead:
        if failure["signal"] and failure["rank"] not in ranks:
            what = f"{failure['signal']}{' (out of memory?)' if failure['signal'] == 'SIGKILL' else ''}"
            raise SilvaError(
                f"rank {failure['rank']} was ended by {what} and the other processes were stopped; {kept}",
                Exit.INCOMPLETE,
            )
    _keep_log(config, folder)
    for failure in dead:
        if failure["said"] or failure["rank"] not in ranks:
            why = " ".join(failure["said"].split())[:300] or f"it ended with exit code {failure['code']}"
            raise SilvaError(f"rank {failure['rank']}: {why}; see {config.output / LOG}; {kept}", Exit.FAULT)
    if said:
        raise SilvaError(f"{said[0][1]['error']}; {kept}", Exit.INCOMPLETE)
    raise SilvaError(f"the processes' agent ended with {code}; see {config.output / LOG}; {kept}", Exit.INCOMPLETE)


def _result(said: dict[str, Any]) -> TrainResult:
    paths = {name: None if said[name] is None else Path(said[name]) for name in ("policy", "checkpoint")}
    return TrainResult(status=said["status"], step=said["step"], reason=said["reason"], **paths)


def _kept(config: TrainConfig) -> str:
    there = sorted((config.output / CHECKPOINTS).glob("step-*"))
    if not there:
        return "there is no checkpoint yet"
    return f"the last checkpoint is {there[-1]}; go on with --resume"


def _keep_log(config: TrainConfig, folder: Path) -> None:
    if config.output.is_dir() and os.access(config.output, os.W_OK):
        shutil.copyfile(folder / LOG, config.output / LOG)
