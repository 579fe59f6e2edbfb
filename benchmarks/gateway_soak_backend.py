"""A scripted backend on a fixed port, so that it can be killed and come again: `python gateway_soak_backend.py NAME PORT SEED`.

Every reply has words of its own, never said before: which reply a client was given, and which the lake holds, can then be
told apart. Some requests meet a fault. It ends with its parent.
"""

from __future__ import annotations

import os
import random
import re
import sys
from pathlib import Path
from typing import Any

from silva.models.child import announce, run_child, stop_with_parent
from silva.models.scripted.app import ScriptedApp
from silva.models.scripted.fault import Fault
from silva.models.scripted.latency import Latency
from silva.models.scripted.script import Script
from silva.models.serving import serve_forever
from silva.models.serving.server import bind

TOOL = "look"
NAME = os.environ.get("SOAK_BACKEND", "backend")
WORDS = [
    "oak",
    "ash",
    "elm",
    "fir",
    "yew",
    "birch",
    "larch",
    "alder",
    "rowan",
    "hazel",
    "maple",
    "cedar",
    "willow",
    "aspen",
    "holly",
    "lime",
    "pine",
    "beech",
]
ASKED = re.compile(r"ask-[0-9a-f]{12}")
FAULTS = (
    Fault(kind="slow_stream", probability=0.12, pause=0.08),
    Fault(kind="status", status=500, probability=0.008),
    Fault(kind="status", status=503, probability=0.004),
    Fault(kind="rate_limit", retry_after=1, probability=0.004),
    Fault(kind="disconnect", probability=0.006),
    Fault(kind="cut", probability=0.006),
    Fault(kind="garbage", probability=0.003),
    Fault(kind="truncated", probability=0.003),
    Fault(kind="empty", probability=0.003),
    Fault(kind="hang", probability=0.0005),
)
_draw = random.Random()


def reply(request: dict[str, Any]) -> dict[str, Any]:
    """What this backend says: a tool call where one is wished for and offered, else words nobody said before."""
    last = request["messages"][-1]
    told = str(last["content"])
    asked = ASKED.search(told)
    mark = f"{NAME}-{_draw.getrandbits(64):016x}"
    if last["role"] == "user" and request["tools"] and "look it up" in told:
        return {"tool_calls": [{"name": TOOL, "arguments": {"key": mark}, "id": f"call_{mark}"}]}
    words = " ".join(_draw.choices(WORDS, k=_draw.randint(3, 60)))
    return {"text": f"{mark} on {asked.group() if asked else 'what the tool said'}: {words}"}


def main(port: int, seed: int) -> None:
    """Serve."""

    def serve() -> None:
        script = Script(
            seed=seed,
            latency=Latency(kind="lognormal", mean=0.2, spread=0.7, longest=5.0),
            faults=FAULTS,
            function=f"{Path(__file__).resolve()}:reply",
        )
        serve_forever(ScriptedApp(script), bind("127.0.0.1", port), announce, stop_with_parent)

    run_child(serve)


if __name__ == "__main__":
    main(int(sys.argv[2]), int(sys.argv[3]))
