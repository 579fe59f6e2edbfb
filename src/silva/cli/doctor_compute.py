"""What there is to compute with, and where to put it: processors, memory, disk, torch, a GPU, bfloat16.

compute() ─▶ numbers of the machine ─▶ torch, asked in a process of its own (to import it takes seconds) ─▶ lines
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from silva.cli.doctor_finding import Finding, Whether, found
from silva.tree import Record

TOPIC = "computing"
_SECONDS = 120
_GIB = 1 << 30
_LEAST_MEMORY, _LEAST_DISK = 4 * _GIB, 5 * _GIB
_ASK = """
import json, time, torch
said = {"version": torch.__version__, "threads": torch.get_num_threads()}
if torch.cuda.is_available():
    one = torch.cuda.get_device_properties(0)
    said |= {"gpus": torch.cuda.device_count(), "gpu": one.name, "gpu_memory": one.total_memory,
             "gpu_bfloat16": torch.cuda.is_bf16_supported()}
def seconds(kind):
    a = torch.randn(512, 512).to(kind)
    a @ a
    began = time.perf_counter()
    for _ in range(4):
        a @ a
    return time.perf_counter() - began
said |= {"float32": seconds(torch.float32), "bfloat16": seconds(torch.bfloat16)}
print(json.dumps(said))
"""


class Torch(Record, frozen=True, kw_only=True):
    """What torch says: seconds of the same products of matrices on the processors, by kind of number."""

    version: str
    threads: int
    float32: float
    bfloat16: float
    gpus: int = 0
    gpu: str = ""
    gpu_memory: int = 0
    gpu_bfloat16: bool = False


def compute() -> Iterator[Finding]:
    """One line for each."""
    cores = len(os.sched_getaffinity(0))
    yield found(TOPIC, "processors", cores > 1, str(cores), "episodes side by side", "two at least are worth having")
    memory = _memory()
    enough = memory >= _LEAST_MEMORY
    yield found(TOPIC, "memory", enough, f"{memory / _GIB:.1f} GiB", "local models, many sandboxes", "4 GiB at least")
    yield _disk()
    said = _asked()
    if isinstance(said, str):
        yield found(TOPIC, "torch", False, said, "training and local models", "pip install 'silva[train]'")
        return
    text = f"{said.version}, {said.threads} threads"
    yield found(TOPIC, "torch", True, text, "training and local models", "")
    text = f"{said.gpus} x {said.gpu}, {said.gpu_memory / _GIB:.0f} GiB" if said.gpus else "none that torch sees"
    yield found(TOPIC, "GPU", bool(said.gpus), text, "training beyond tiny models", "all runs on processors, slower")
    yield _bfloat16(said)


def _memory() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) << 10
    return 0


def _disk() -> Finding:
    from silva.envs.home import home

    place = home()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    said = f"{free / _GIB:.1f} GiB free where environments and snapshots are kept"
    return found(TOPIC, "disk", free >= _LEAST_DISK, said, "environments, snapshots, lakes", "free 5 GiB; SILVA_HOME")


def _asked() -> Torch | str:
    """What torch says, or why it says nothing."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _ASK], capture_output=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
        return msgspec.json.decode(done.stdout, type=Torch)
    except OSError as error:
        return f"it cannot be asked: {error.strerror or error}"
    except subprocess.TimeoutExpired:
        return f"it did not answer in {_SECONDS} s"
    except msgspec.DecodeError:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        missing = bool(lines) and lines[-1].startswith("ModuleNotFoundError")
        return "not installed" if missing or not lines else f"it does not work: {lines[-1][:160]}"


def _bfloat16(said: Torch) -> Finding:
    purpose = "half the memory of a model"
    if said.gpu_bfloat16:
        return found(TOPIC, "bfloat16", True, "the GPU has it", purpose, "")
    times = said.float32 / said.bfloat16 if said.bfloat16 else 0.0
    text = f"on processors at {times:.2g} times the speed of float32"
    whether = Whether.YES if times >= 1 else Whether.PART
    mend = "" if times >= 1 else "use float32 on this machine"
    return Finding(topic=TOPIC, name="bfloat16", whether=whether, said=text, purpose=purpose, mend=mend)
