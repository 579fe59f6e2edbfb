"""The process that runs tools: one request a line on its input, one reply a line on what was its output.

    {"step", "tool", "inputs", "settings", "terms"…} ─▶ artefacts from the store ─▶ the tool ─▶ the store ─▶ {"result"…}

It ends when whoever started it does. What tools print goes to its log. A fault of a tool is a reply, not the end.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import platformdirs

from silva.elf.artefact import Artefact
from silva.elf.assets import toolbox
from silva.elf.running.guard import Guard, Refused
from silva.elf.running.store import Store
from silva.elf.tool import Permission, Tool
from silva.elf.work import FILE, Meter, Work
from silva.errors import Exit, SilvaError
from silva.tree import Json, Record

_DEATH_SIGNAL = 1
"""prctl's number for: tell me of the death of the one who started me."""


class Request(Record, frozen=True, kw_only=True):
    """One step to run. `inputs`: the digests of its artefacts; `paid`: the folder whose file says what models cost."""

    tool: str
    inputs: dict[str, tuple[str, ...]]
    settings: Json
    home: str
    folder: str
    paid: str
    lake: str
    model: str
    tokens: int
    usd: float
    granted: tuple[Permission, ...]
    replay: str = ""


class Reply(Record, frozen=True, kw_only=True):
    """What came of it: a result, or why there is none (`error`, with the exit code it deserves)."""

    result: str = ""
    kind: str = ""
    count: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    error: str = ""
    code: int = 0


def run(tool: Tool, request: Request, guard: Guard | None) -> Reply:
    """Run one step."""
    store = Store(Path(request.home))
    began = time.perf_counter()
    try:
        given: dict[str, Artefact | list[Artefact]] = {}
        for name, digests in request.inputs.items():
            found = [store.get(each) for each in digests]
            given[name] = found if tool.card.inputs[name].many else found[0]
        folder = Path(request.folder)
        work = Work(
            lake=request.lake,
            folder=folder,
            model=request.model if Permission.MODEL in request.granted else "",
            home=Path(request.home),
            replay=request.replay,
            meter=Meter(Path(request.paid) / FILE, request.tokens, request.usd),
        )
        if guard is not None and tool.card.origin != "sandbox":
            places = [folder, Path(request.home)]
            # What Silva's own tools keep for good: weights in another form, kept scores.
            places += [Path(platformdirs.user_cache_dir("silva"))] if tool.card.origin == "silva" else []
            may = [each for each in tool.card.permissions if each is not Permission.NET or not request.replay]
            guard.step(tool.card.name, may, places)
        made = tool(given, request.settings, work)
        if guard is not None:
            guard.over()
            if guard.refused:  # a tool that swallowed the refusal has tried all the same
                raise Refused(guard.refused)
        name = store.put(made)
    except SilvaError as error:
        return _failed(str(error), int(error.code), began)
    except Refused as error:
        return _failed(f"{error}; nothing was kept", int(Exit.USAGE), began)
    except MemoryError:
        return _failed(f"{tool.card.name}: ran out of memory", int(Exit.INCOMPLETE), began)
    except RecursionError:
        return _failed(f"{tool.card.name}: called itself without end", int(Exit.INCOMPLETE), began)
    except Exception as error:  # noqa: BLE001 - a tool may be anybody's: what it raises is told, never the end of the job
        text = " ".join(str(error).split())[:300]
        return _failed(f"{tool.card.name}: broke: {type(error).__name__}: {text}", int(Exit.FAULT), began)
    finally:
        if guard is not None:
            guard.over()
    return Reply(
        result=name, kind=made.noun, count=len(made), seconds=time.perf_counter() - began, notes=made.notes[:20]
    )


def _failed(why: str, code: int, began: float) -> Reply:
    return Reply(error=why, code=code, seconds=time.perf_counter() - began)


def main() -> None:
    """Answer requests until the input ends."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    faulthandler.register(signal.SIGUSR1)  # where it stands, into the log, when somebody asks
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner decides what an interruption means
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    decode = msgspec.json.Decoder(Request).decode
    sys.dont_write_bytecode = True  # the first import of a package would write beside it, in a tool's name
    guard = Guard()
    tools: Any = None
    for line in sys.stdin.buffer:
        request = decode(line)
        tools = tools or toolbox(Path(request.home), candidates=True)
        answers.write(msgspec.json.encode(run(tools.tool(request.tool), request, guard)) + b"\n")


if __name__ == "__main__":
    main()
