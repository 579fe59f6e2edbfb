"""Which plan a run belongs to, told from its name and from what its configuration says was done to the agent.

`trial.pair.tool_result.plain.send.r3` ─▶ trial        `trial.with.sinks.perturb.failure` ─▶ trial
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from silva.redteam.attackers.table import attackers
from silva.redteam.plan import WITHOUT
from silva.tree import Run

_ROUND = re.compile(r"\.(r\d+|base)$")


def plan_of(run: Run) -> str:
    """The name of the plan whose attack or disturbance a run is; empty of a run that is neither. A run that stands
    alone (`silva rollout --attack`) is its own plan."""
    stages = run.config.get("stages")
    stages = stages if isinstance(stages, dict) else {}
    attack = (stages.get("attack") or {}).get("attack", "")
    kinds = (stages.get("perturb") or {}).get("kinds", "")
    if not attack and not kinds:
        return ""
    name = run.id
    if attack:
        behind = "." + str(attack).replace("/", ".")
        whole = _ROUND.sub("", name)
        if not whole.endswith(behind):
            return name
        name = whole.removesuffix(behind)
        head, dot, last = name.rpartition(".")
        name = head if dot and last in attackers() else name
    else:
        behind = f".perturb.{kinds if isinstance(kinds, str) else '+'.join(map(str, kinds))}"
        if not name.endswith(behind):
            return name
        name = name.removesuffix(behind)
    head, guarded, _ = name.rpartition(".with.")
    return head if guarded else name


def plans_of(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """The plans among some runs, with the runs that belong to each, those without an attack, too; the latest first."""
    known = list(runs)
    names = dict.fromkeys(name for each in sorted(known, key=lambda run: -run.started) if (name := plan_of(each)))
    return {
        name: [each for each in known if each.id == name or each.id.startswith(f"{name}.")]
        for name in names
        if not any(name == f"{other}.{WITHOUT}" for other in names)
    }
