"""What attacks came to, what detectors find, and how safe dialogues were (`silva.redteam`, `silva.report.dialogue`)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from silva.elf.artefact import Figures, Table
from silva.elf.tool import Permission, tool
from silva.elf.tools.asking import must_have_run, reading
from silva.elf.work import Work
from silva.errors import UsageError
from silva.redteam.detecting import agreement, detected
from silva.redteam.rates import played, rates
from silva.report.wording import bounds, percent

Plan = Annotated[str, Meta(min_length=1, description="the name of a plan of the red team, or of a run")]


@tool(
    Permission.READ,
    asks=(
        "red team report",
        "attack rate",
        "attack success",
        "red team",
        "attack result",
        "how many attack",
        "red team result",
        "attack",
    ),
)
def attack_rates(plan: Plan, work: Work) -> Table:
    """What the attacks of a plan came to: exposed, led astray, safe, task done, with intervals by task."""
    with reading(work) as lake:
        found = rates([each for one in played(lake, plan).values() for each in one])
    rows = [
        {"attack": r.attack or "(none)", "attempts": r.attempts, "launched": r.launched, "exposed": r.exposed}
        | {
            name: f"{percent(each.value if each else None)} {bounds(each)}".strip()
            for name, each in {
                "success if exposed": r.success_exposed,
                "success": r.success,
                "safe": r.safety,
                "task done": r.utility,
            }.items()
        }
        for r in found
    ]
    return Table(rows=tuple(rows))


@tool(
    Permission.READ,
    asks=("detect attack", "detector", "find injection run", "detect injection", "detect prompt injection", "detect"),
)
def detect_attacks(plan: Plan, work: Work) -> Figures:
    """What detectors find in the trajectories of a plan or run, and their measured error against what happened."""
    with reading(work) as lake:
        attempts = [each for one in played(lake, plan).values() for each in one]
        read = [(each, detected(lake.walk(each))) for each in attempts if each.leaf_id is not None]
    found = [
        {"trajectory": each.id[:12], "turn": one.turn, "detector": one.risk.by, "evidence": one.risk.evidence}
        for each, some in read
        for one in some
    ]
    agreed = [msgspec.to_builtins(each) for each in agreement(read)]
    return Figures(
        figures={"trajectories": len(read), "found": len(found), "agreement": agreed, "findings": found[:200]}
    )


@tool(
    Permission.READ,
    asks=(
        "dialogue safety",
        "dialogue safety score",
        "dialogue safety strategy",
        "jailbreak dialogue",
        "dialogue",
        "qa report",
        "safety rate",
        "safety by strategy",
        "conversation safety",
    ),
)
def dialogue_safety(work: Work, run: Annotated[str, Meta(description="of this run; all when empty")] = "") -> Table:
    """Safety rates of red-teaming in dialogue by strategy; what an unmeasured judge decided is withheld."""
    from silva.envs.gyms.qa.judging import ruled
    from silva.report.dialogue import ENVS, JUDGES, RULE, dialogues, measured
    from silva.report.dialogue import agreement as against_labels

    with reading(work) as lake:
        if run:
            must_have_run(lake, run)
        found = [each for env in ENVS for each in lake.trajectories(run_id=run or None, env=env)]
        if not found:
            raise UsageError(f"lake {lake.location}: no dialogue of the environments {', '.join(ENVS)}")
        known = {RULE: against_labels(RULE, ruled()), **measured(lake.trajectories(env=JUDGES))}
    done = dialogues(found, known)
    rows = [msgspec.to_builtins(each) for each in done.rows]
    for row in rows:
        row.pop("by_round", None)
        safety = row.get("safety")
        row["safety"] = safety["value"] if isinstance(safety, dict) else None
    return Table(rows=tuple(rows), notes=tuple(f"withheld: {n} judged by {model}" for model, n in done.unknown))
