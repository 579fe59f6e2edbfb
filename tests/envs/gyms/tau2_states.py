"""Plays tasks of a τ² domain by their experts, the state taken out and put into another instance at every turn, and
prints what was seen as JSON. Run by the interpreter that has the package: tau2_states.py CLASS TASKS."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from typing import Any

from silva.envs.gyms.tau2 import environment, library
from silva.envs.state import pickled, unpickled


async def played(kind: Any, count: int) -> dict[str, Any]:
    """What became of the first tasks."""
    pristine = library._unchanged(kind.domain)
    before = None if pristine is None else pristine.get_hash()
    found: dict[str, Any] = {"tasks": 0, "turns": 0, "differed": [], "largest": 0}
    out, back = [], []
    for task in list(kind.tasks("test"))[:count]:
        here = kind()
        await here.reset(task, 0)
        done = False
        while not done:
            began = time.perf_counter()
            data = pickled(here)
            out.append(time.perf_counter() - began)
            began = time.perf_counter()
            there = unpickled(kind, data)
            back.append(time.perf_counter() - began)
            found["largest"] = max(found["largest"], len(data))
            action = await here.expert()
            same = await there.expert() == action
            observed = await here.step(action)
            same = same and await there.step(action) == observed
            done = observed.done or observed.truncated
            found["turns"] += 1
            if not same:
                found["differed"].append(task.id)
        # Everything in both databases, and the verdicts.
        if there._environment.get_db_hash() != here._environment.get_db_hash():
            found["differed"].append(task.id)
        if await there.evaluate() != await here.evaluate():
            found["differed"].append(task.id)
        found["tasks"] += 1
    found["pristine"] = pristine is not None and pristine.get_hash() == before
    found["out_ms"], found["back_ms"] = (1e3 * statistics.median(each) for each in (out, back))
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(played(getattr(environment, sys.argv[1]), int(sys.argv[2])))))
