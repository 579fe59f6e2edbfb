"""CurateEvo against raw data at equal steps (L6): evolved curation code, with all its controls, on one corpus a seed.

    python benchmarks/learning/curateevo.py --env depot --policy tiny --seeds 86 87 88 89 90

A depot's log (examples/curateevo/depot.py) is full of wrong turns, errands filed under others, workers who give up or
wander, and hardly an errand for a thing that is nowhere. (`--env houses` is the second environment, without infeasible
goals: examples/skills/houses.py, every second turn of the expert's slipped.) A policy that has learnt the work elsewhere
(elsewhere.py) is trained on it, always by the same recipe and as many steps. The loop (`silva loop curateevo`) evolves
the code that curates the log, by the walks that fail on `dev`; on `test`, which nothing decided, and by trainings of
seeds that nothing decided, stand

    raw          everything as it is                    evolved   the loop's last source
    successes    the walks the log calls successes      blind     the loop without diagnosis: mutations drawn alike
    all          a pipeline of all operators by hand    lambda …  the loop with another weight of the cost
    no memory    the evolved source, its memories left out;     with rl   the same, its tasks practised by GRPO besides

Every arm of a seed has its corpus, base, recipe, dev and test in common. The claim: evolved over raw is at least 10
points with an interval above 0 over tasks and over seeds and tasks, evolved over successes has one above 0, and
evolved trains on fewer turns than raw. Everything else is printed whatever it says.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
import yaml
from elsewhere import learnt_elsewhere
from runner import Seed, main
from safety import cpu_minutes
from table import Row, together

from silva.curate.curation.source import named
from silva.loops.curateevo.judging import UNSEEN, Judge, Judged
from silva.loops.curateevo.state import present, source
from silva.loops.kernel.kinds import kind
from silva.loops.kernel.ledger import FILE, StageLedger
from silva.loops.kernel.loop import CONFIG, Loop
from silva.loops.kernel.turn import turn

EXAMPLE = Path(__file__).parents[2] / "examples" / "curateevo"
LOOPS = {"depot": "evolve.yaml", "houses": "houses.yaml"}
"""The loop's configuration for each environment."""
COMMON = ("base", "survey", "split", "raw", "start")
"""Stages that every arm of a seed has in common, with what is judged under the last."""
WEIGHTS = (0.0, 1.0)
"""The sweep of λ beside the paper's 0.3."""
PROVEN = 2
"""Trainings of each arm by seeds that nothing decided."""
RL = {"rounds": 1, "tasks": 12, "group": 4, "steps": 3, "batch": 8}


def run(seed: Seed) -> list[Row]:
    """One seed."""
    began = time.monotonic()
    folder = seed.experiment.folder
    evolved = _turned(folder / "evolved", seed, {})
    arms: dict[str, Loop[Any]] = {"evolved": evolved}
    for name, changes in {
        "blind": {"ablate": {"diagnosis": True}},
        **{f"lambda {weight:g}": {"weight": weight} for weight in WEIGHTS},
    }.items():
        arms[name] = _turned(_forked(evolved.folder, folder / name.replace(" ", "-")), seed, changes)
    stage = next(each for each in evolved.plan if each.kind == "report")
    judge = Judge(evolved, stage)
    curations = {
        "raw": named("raw"),
        "successes": named("successes"),
        "all": named("all-operators"),
        **{name: source(loop, str((present(loop) or {})["digest"])) for name, loop in arms.items()},
    }
    seeds = range(UNSEEN, UNSEEN + PROVEN)
    found = dict(zip(curations, judge.judge(list(curations.values()), seeds, "test"), strict=True))
    mine = found["evolved"]
    found["no memory"] = judge.judge_data(mine.curation, mine.data.without("memory"), seeds, "test")
    found["with rl"] = _practised(evolved, seed, mine)
    more = _more(found, arms, time.monotonic() - began)
    rates = {name: _rates(each) for name, each in found.items()}
    pairs = [("raw", name) for name in found if name != "raw"]
    pairs += [(name, "evolved") for name in ("successes", "all", "blind", "no memory", *_weights())]
    pairs += [("evolved", "with rl")]
    return [
        Row(
            seed=seed.number,
            left=left,
            right=right,
            before=rates[left],
            after=rates[right],
            more=more if (left, right) == ("raw", "evolved") else {},
        )
        for left, right in pairs
    ]


def _weights() -> list[str]:
    return [f"lambda {weight:g}" for weight in WEIGHTS]


def _config(folder: Path, seed: Seed, changes: dict[str, Any]) -> Any:
    said: dict[str, Any] = yaml.safe_load((EXAMPLE / LOOPS[seed.env]).read_text(encoding="utf-8"))
    said |= {"folder": str(folder), "seed": seed.number, "env": seed.setting.env, "threads": 1, **changes}
    said["policy"] = {**said["policy"], "base": str(learnt_elsewhere(seed.experiment, seed.env).trained)}
    return kind("curateevo").config.model_validate(said)


def _turned(folder: Path, seed: Seed, changes: dict[str, Any]) -> Loop[Any]:
    """A loop of the example's configuration, turned to its end."""
    return turn(_config(folder, seed, changes), here=True)


def _practised(evolved: Loop[Any], seed: Seed, mine: Judged) -> Judged:
    """The evolved source once more, its tasks practised behind SFT: another recipe, so nothing judged before counts."""
    recipe = {**evolved.config.recipe.model_dump(mode="json"), "rl": RL}
    config = _config(_forked(evolved.folder, evolved.folder.with_name("rl")), seed, {"recipe": recipe})
    loop = kind("curateevo").open(config)  # not turned: what is before its judging stands in its ledger
    judge = Judge(loop, next(each for each in loop.plan if each.kind == "report"))
    return judge.judge([mine.curation], range(UNSEEN, UNSEEN + PROVEN), "test")[0]


def _forked(folder: Path, target: Path) -> Path:
    """A copy of a loop that stands behind its common stages; what was judged is judged in the copy, too."""
    if target.is_dir():
        return target
    draft = target.with_name(f".{target.name}")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(folder, draft)
    entries = [each for each in StageLedger(draft).entries if each.stage in COMMON]
    (draft / FILE).write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in entries))
    shutil.rmtree(draft / "lake" / "ledgers" / "curations", ignore_errors=True)
    for each in [*(draft / "results").iterdir(), *(draft / "pieces").iterdir()]:
        if each.name.removesuffix(".json") not in COMMON:
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    (draft / CONFIG).unlink()
    draft.rename(target)
    return target


def _rates(judged: Judged) -> dict[str, float]:
    if judged.why:
        raise SystemExit(f"curation {judged.curation.digest[:12]}: {judged.why}")
    return {task: fmean(each[task] for each in judged.rates) for task in sorted(judged.rates[0])}


def _more(found: dict[str, Judged], arms: dict[str, Loop[Any]], seconds: float) -> dict[str, float]:
    told: dict[str, float] = {"minutes": seconds / 60, "cpu_minutes": cpu_minutes()}
    for name, each in found.items():
        told[f"turns, {name}"] = float(each.profile.turns)
        infeasible = [rate for task, rate in _rates(each).items() if "-nowhere-" in task]
        told |= {f"infeasible, {name}": fmean(infeasible)} if infeasible else {}
    for name, loop in arms.items():
        stages = [loop.outputs(each.name) for each in loop.plan if each.kind in ("effect", "efficiency")]
        told[f"kept, {name}"] = float(sum(bool(each and each["kept"]) for each in stages))
        told[f"dev P, {name}"] = float((present(loop) or {"p": 0.0})["p"])
    now = present(arms["evolved"]) or {}
    thousand = max(1.0, float(now.get("turns", 0))) / 1000
    told["seconds a thousand retained turns"] = sum(e.seconds for e in arms["evolved"].ledger.entries) / thousand
    return told


def held(rows: list[Row]) -> dict[str, Any]:
    """Whether the claim holds."""
    of = {(row.left, row.right) for row in rows}
    found = {pair: together([row for row in rows if (row.left, row.right) == pair]) for pair in of}
    raw, success = found["raw", "evolved"], found["successes", "evolved"]
    fewer = all(a < b for a, b in zip(raw["turns, evolved"], raw["turns, raw"], strict=True))
    better = raw["gain"] >= 0.1 and min(raw["low"], raw["over_seeds"][0]) > 0
    over_success = min(success["low"], success["over_seeds"][0]) > 0
    blind = found["blind", "evolved"]
    return {
        "holds": better and over_success and fewer and len({row.seed for row in rows}) >= 5,
        "evolved over raw": better,
        "evolved over successes": over_success,
        "fewer turns": fewer,
        "diagnosis over blind mutation": min(blind["low"], blind["over_seeds"][0]) > 0,
    }


if __name__ == "__main__":
    sys.exit(main("curateevo", __doc__, run, held))
