"""`silva doctor`: what this machine can do and what it cannot, what each is for, and what to install.

kernel · programs · compute · environments ─▶ Finding, one at a time ─▶ a table, or `--json`

It changes nothing. Lakes have a doctor of their own: `silva lake doctor`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import chain
from typing import Annotated

import msgspec
import typer

from silva.cli.doctor_compute import compute
from silva.cli.doctor_finding import Finding, Whether, found
from silva.cli.doctor_kernel import kernel
from silva.cli.doctor_programs import programs

app = typer.Typer(add_completion=False, help="What this machine can do, and what to install for the rest.")
_TOPIC = "environments"


@app.command()
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Say what this machine can do and what it cannot: sandboxes, programs, computing, environments.

    Everything is found out by trying, which takes some seconds; nothing is changed.
    """
    lines = chain(kernel(), programs(), compute(), environments())
    if as_json:
        sys.stdout.write(json.dumps([msgspec.structs.asdict(each) for each in lines], indent=2) + "\n")
        return
    topic = ""
    missing = 0
    for each in lines:
        if each.topic != topic:
            topic = each.topic
            sys.stdout.write(f"{topic}\n")
        missing += each.whether is not Whether.YES
        sys.stdout.write(f"  {each.whether:4} {each.name:18} {each.said}  (for {each.purpose})\n")
        if each.mend:
            sys.stdout.write(f"       {'':18} {each.mend}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{missing} could be better: what does not need them works\n" if missing else "all is there\n")


def environments() -> Iterator[Finding]:
    """One line for those that can run here, one for each that lacks something of the machine."""
    from silva.cli.envs import lacks, state
    from silva.envs import Registry

    registry = Registry.load()
    states = {entry.name: state(entry) for entry in registry}
    ready = sorted(name for name, where in states.items() if where in ("installed", "here"))
    left = sorted(name for name, where in states.items() if where not in ("installed", "here", "lacks packages"))
    yield found(_TOPIC, "ready", bool(ready), ", ".join(ready) or "none", "silva rollout --env NAME", "see below")
    if left:
        said = ", ".join(left)
        how = "silva envs install NAME"
        yield Finding(
            topic=_TOPIC, name="not installed", whether=Whether.PART, said=said, purpose="rollouts in them", mend=how
        )
    for entry in registry:
        if states[entry.name] == "lacks packages":
            yield found(_TOPIC, entry.name, False, "lacks packages", entry.summary, lacks(entry))
    for why in registry.broken.values():
        yield found(_TOPIC, "broken", False, why, "the environments of that package", "reinstall it, or remove it")
