"""Turning a loop: one stage after another, each in its worker, each noted before and after.

plan ─▶ first stage that is not over ─▶ `begun` ─▶ worker ─┬▶ outputs ─▶ `ended`
                   ▲                                       ├▶ nothing to go on with ─▶ `skipped`, its round too
                   │                                       ├▶ people must act first ─▶ `waiting`, the loop stops
                   └───────────────────────────────────────┴▶ an error ─▶ `failed`, and the loop stops there
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from filelock import FileLock, Timeout

from silva.errors import Exit, SilvaError, UsageError
from silva.lake.durable import make_folder, refusals
from silva.loops.kernel.config import LoopConfig
from silva.loops.kernel.kinds import kind, read_loop
from silva.loops.kernel.ledger import Entry
from silva.loops.kernel.loop import CONFIG, Loop
from silva.loops.kernel.stage import Nothing, Stage, Waiting
from silva.models.child import python_path
from silva.models.local.shared import only_last, sharing
from silva.train.engines.open import SHARED_CORES

LOCK = ".loop.lock"
WORKER = "silva.loops.kernel.worker"


class StageError(SilvaError):
    """A stage failed; the message names it, says why, and that the loop goes on from there."""


Watch = Callable[[Stage, Entry], None]


def turn(
    config: LoopConfig, watch: Watch = lambda stage, entry: None, here: bool = False, until: str = ""
) -> Loop[Any]:
    """Begin a loop of whichever kind, or go on with the one in the configuration's folder, to its end, or to a stage
    that waits for people (`silva.loops.kernel.seen.waits`).

    Args:
        config: of the loop.
        watch: told each entry of the ledger as it is made.
        here: run the stages in this process, one after the other, and the servers of local models with them: for
            experiments with many small loops, where starting processes is most of the time. A stage that dies takes
            this process with it; begun again, the loop goes on.
        until: stop before the first stage of this kind; turned again without it, the loop goes on from there.

    Raises:
        UsageError: the folder holds a loop of another configuration, or is in use.
        StageError: a stage failed; what was done is kept.
        StoreError: the disk refused, or the ledger is damaged.
    """
    folder = config.folder
    with refusals(f"loop {folder}"):
        make_folder(folder)
    try:
        with FileLock(folder / LOCK).acquire(timeout=0):
            loop = kind(config.loop).open(config)
            check(loop)
            loop.keep_config()
            with sharing(within=True) if here else nullcontext():  # one server for all that a version plays
                for stage in loop.plan:
                    if stage.kind == until or not _one(loop, stage, watch, _here if here else _work):
                        break
                    only_last()
            return loop
    except Timeout as error:
        raise UsageError(f"folder {folder}: this loop is being run already; wait for it, or end it") from error


def check(loop: Loop[Any]) -> None:
    """See that what was done is what the configuration means.

    Raises:
        UsageError: a stage that is over was of another configuration, or the folder holds something else.
    """
    over = loop.ledger.over()
    other = next((s.name for s in loop.plan if s.name in over and over[s.name].inputs != s.inputs), None)
    if other is not None:
        raise UsageError(
            f"folder {loop.folder}: its stage {other} was of another configuration ({CONFIG} there has it); go on with "
            "that one, or name another folder"
        )
    kept = read_loop(loop.folder)[1].lake if over and (loop.folder / CONFIG).exists() else loop.lake
    if kept != loop.lake:  # no stage's inputs name it, so that a folder may be moved with the lake in it
        raise UsageError(
            f"folder {loop.folder}: what it has made is in lake {kept}, not in {loop.lake}; go on with that one, or "
            "name another folder"
        )
    if not over and not (loop.folder / CONFIG).exists():
        held = [each.name for each in loop.folder.iterdir() if not each.name.startswith(".")]
        if held:
            raise UsageError(f"folder {loop.folder}: holds {held[0]} and no loop; name a new or empty folder")


def _one(loop: Loop[Any], stage: Stage, watch: Watch, work: Callable[[Loop[Any], Stage], dict[str, Any]]) -> bool:
    """Run a stage that is not over; say whether the loop goes on behind it."""
    if stage.name in loop.ledger.over():
        return True

    def note(event: Any, seconds: float = 0.0, outputs: dict[str, Any] | None = None, why: str = "") -> None:
        entry = Entry(
            stage=stage.name,
            event=event,
            inputs=stage.inputs,
            at=time.time(),
            seconds=seconds,
            outputs=outputs or {},
            note=why,
        )
        loop.ledger.append(entry)
        watch(stage, entry)

    earlier = _skipped(loop, stage)
    if earlier:
        note("skipped", why=earlier)
        return True
    note("begun")
    started = time.monotonic()
    said = work(loop, stage)
    seconds = time.monotonic() - started
    if "nothing" in said:
        note("skipped", seconds, why=said["nothing"])
        return True
    if "waiting" in said:
        note("waiting", seconds, why=said["waiting"])
        return False
    outputs = loop.result(stage) if said["code"] == Exit.OK else None
    if outputs is None:
        why = str(said.get("error") or f"its process ended with {said['code']} and left nothing; its words are above")
        note("failed", seconds, why=why)
        code = Exit(said["code"]) if said["code"] in set(Exit) and said["code"] else Exit.FAULT
        raise StageError(f"stage {stage.name}: {why} (the same command goes on from here)", code)
    note("ended", seconds, outputs)
    return True


def _skipped(loop: Loop[Any], stage: Stage) -> str:
    """Why a stage is skipped with an earlier one of its round; "" where it is not."""
    if not stage.round:
        return ""
    over = loop.ledger.over()
    for earlier in loop.plan:
        entry = over.get(earlier.name)
        if earlier.round == stage.round and entry is not None and entry.event == "skipped":
            return f"{earlier.name} gave nothing"
    return ""


def _here(loop: Loop[Any], stage: Stage) -> dict[str, Any]:
    try:
        if loop.result(stage) is None:
            loop.keep_result(stage, kind(loop.config.loop).run(loop, stage))
    except Nothing as why:
        return {"code": int(Exit.OK), "nothing": str(why)}
    except Waiting as what:
        return {"code": int(Exit.OK), "waiting": str(what)}
    except SilvaError as error:
        return {"code": int(error.code), "error": str(error)}
    return {"code": int(Exit.OK)}


def _work(loop: Loop[Any], stage: Stage) -> dict[str, Any]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", WORKER, str(loop.folder), stage.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**SHARED_CORES, **os.environ, "PYTHONPATH": python_path()},
        start_new_session=True,  # Ctrl-C reaches this process first, which then lets go of the worker
    )
    assert process.stdout is not None and process.stdin is not None
    said: dict[str, Any] = {}
    try:
        for line in process.stdout:
            said = _said(line) or said
        process.wait()
    finally:
        process.stdin.close()  # a worker that still lives ends itself
        process.wait()
        process.stdout.close()
    return said or {"code": process.returncode or int(Exit.FAULT)}


def _said(line: bytes) -> dict[str, Any]:
    """What a line of a worker says; nothing where a library printed it."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) and "code" in found else {}
