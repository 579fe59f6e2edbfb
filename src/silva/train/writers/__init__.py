"""Samples in the form of the trainers the field uses, each a file of the kind that trainer reads.

    samples ─▶ writer ─▶ rows under the trainer's own field names ─▶ Parquet, JSONL, a torch file or msgpack

A writer carries ids, masks and log-probabilities over and leaves nothing out silently: what a trainer's form cannot
say (a weight, an unknown log-probability) is refused by name. Which source the field names were read from stands in
each module.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from silva.errors import UsageError
from silva.train.sample import Sample


@dataclass(frozen=True, kw_only=True)
class Options:
    """What some of the writers ask for: `budget`, ids a pack may hold; `temperature`, at which the turns were drawn;
    `objective`, whether a loss is policy gradient (`rl`) or imitation (`ce`); `margin`, how far apart the rewards of a
    pair lie; `force`, whether a file that is there is replaced."""

    budget: int | None = None
    temperature: float = 1.0
    objective: Literal["rl", "ce"] = "rl"
    margin: float = 0.0
    force: bool = False


Write = Callable[[Path, Sequence[Sample], Options], int]


class Format(NamedTuple):
    """A trainer's form: the module and function that write it, the endings a file may have, one line for help."""

    module: str
    function: str
    endings: tuple[str, ...]
    summary: str


_TABLE = (".parquet", ".jsonl")
FORMATS = {
    "silva": Format("silva_file", "write", (".samples",), "Silva's own: every field of every sample"),
    "trl-sft": Format("trl", "write_sft", _TABLE, "TRL's SFTTrainer: input_ids, labels"),
    "trl-grpo": Format("trl", "write_grpo", _TABLE, "what TRL's rollout_func returns, a row a sample"),
    "trl-dpo": Format("trl", "write_dpo", _TABLE, "TRL's DPO collator: prompt_ids, chosen_ids, rejected_ids"),
    "verl": Format("verl", "write", _TABLE, "verl's AgentLoopOutput, a row a sample"),
    "slime": Format("slime", "write", (".pt",), "slime's --load-debug-rollout-data"),
    "prime-rl": Format("prime_rl", "write", (".bin",), "prime-rl's micro batches, packed to --budget"),
}


def find(name: str) -> Format:
    """The format of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in FORMATS:
        raise UsageError(f"unknown format {name!r}; known: {', '.join(FORMATS)}")
    return FORMATS[name]


def ready(name: str, path: Path, *, force: bool = False) -> Format:
    """The format of that name, once a file of it may be written to `path`.

    Raises:
        UsageError: unknown format, another ending than it has, or the file is there and `force` is not said.
    """
    found = find(name)
    if path.suffix not in found.endings:
        raise UsageError(f"{path.name}: a file of {name} ends in {' or '.join(found.endings)}")
    if path.exists() and not force:
        raise UsageError(f"{path.name}: is there already; add --force to replace it")
    return found


def write(name: str, path: Path, samples: Sequence[Sample], options: Options | None = None) -> int:
    """Write samples to a file in a trainer's form; return how many rows it has.

    Raises:
        UsageError: as `ready`, or the disk refuses.
        SampleError: a sample cannot be said in that form; it is named, and no file is left.
    """
    options = options or Options()
    found = ready(name, path, force=options.force)
    function: Write = getattr(importlib.import_module(f"{__name__}.{found.module}"), found.function)
    return function(path, samples, options)
