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
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
import yaml
from beside import cores_of
from elsewhere import learnt_elsewhere
from runner import Seed, main
from safety import cpu_minutes
from settings import SETTINGS
from table import Row, together

from silva.curate.curation.source import Curation, named
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
OTHERS: dict[str, dict[str, Any]] = {
    "blind": {"ablate": {"diagnosis": True}},
    **{f"lambda {weight:g}": {"weight": weight} for weight in WEIGHTS},
}
"""The other loops, and how they differ."""
BY_HAND = {"successes": "successes", "all": "all-operators"}
"""Curations that nothing evolved, beside the raw one, which the loop proves itself against."""
SEEN_BY_NOBODY = range(UNSEEN, UNSEEN + 2)
"""The seeds of each arm's trainings: nothing was decided by them."""
RL = {"rounds": 1, "tasks": 12, "group": 4, "steps": 3, "batch": 8}


@dataclass(frozen=True, kw_only=True)
class Given:
    """What every arm of a seed has: the environment, the seed's number, and the policy that learnt elsewhere."""

    env: str
    number: int
    base: str

    def config(self, folder: Path, changes: dict[str, Any]) -> Any:
        """The example's configuration, changed."""
        said: dict[str, Any] = yaml.safe_load((EXAMPLE / LOOPS[self.env]).read_text(encoding="utf-8"))
        env = SETTINGS[self.env].env
        said |= {"folder": str(folder), "seed": self.number, "env": env, "threads": 1, **changes}
        said["policy"] = {**said["policy"], "base": self.base}
        return kind("curateevo").config.model_validate(said)

    def turned(self, folder: Path, changes: dict[str, Any], until: str = "") -> Loop[Any]:
        """A loop, turned to its end, or up to its first stage of a kind."""
        return turn(self.config(folder, changes), here=True, until=until)

    def opened(self, folder: Path, changes: dict[str, Any]) -> Loop[Any]:
        """A loop, as it stands."""
        return kind("curateevo").open(self.config(folder, changes))

    def judge(self, folder: Path, changes: dict[str, Any]) -> Judge:
        """A loop's judge. It is not turned: what is before its judging stands in its ledger."""
        loop = self.opened(folder, changes)
        return Judge(loop, next(each for each in loop.plan if each.kind == "report"))


def run(seed: Seed) -> list[Row]:
    """One seed. Arms go side by side, each in a copy of the loop's folder: curations by hand as soon as there is a corpus,
    the blind loop beside the loop, the others behind it, with all that it has judged."""
    began = time.monotonic()
    experiment = seed.of_one_thread()
    folder, base = experiment.folder, learnt_elsewhere(experiment, seed.env).trained
    given = Given(env=seed.env, number=seed.number, base=str(base))
    given.turned(folder / "evolved", {}, until="first")
    behind = [*(name for name in OTHERS if name != "blind"), "with rl"]
    with cores_of(seed.cores) as pool:
        # A folder is copied before the loop goes on in it, and the loop, for which most wait, is asked for first.
        _fork(folder, BY_HAND)
        first = pool.submit(_first, folder, given)
        asked = [pool.submit(_arm, folder, given, name) for name in BY_HAND]
        first.result()
        _fork(folder, ["blind"])
        loop = pool.submit(_arm, folder, given, "evolved")
        asked.append(pool.submit(_arm, folder, given, "blind"))
        found = loop.result()
        _fork(folder, behind)
        asked += [pool.submit(_arm, folder, given, name) for name in behind]
    found |= {name: each for done in asked for name, each in done.result().items()}
    found |= {name: found["evolved"] for name in OTHERS if name not in found}
    arms = {name: given.opened(_place(folder, name), OTHERS.get(name, {})) for name in ("evolved", *OTHERS)}
    more = _more(found, arms, time.monotonic() - began)
    rates = {name: _rates(each) for name, each in found.items()}
    pairs = [("raw", name) for name in found if name != "raw"]
    pairs += [(name, "evolved") for name in ("successes", "all", *OTHERS, "no memory")]
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


def _first(folder: Path, given: Given) -> None:
    """The loop's first curation is judged, which is what the blind one begins with, too."""
    given.turned(folder / "evolved", {}, until="diagnose")


def _arm(folder: Path, given: Given, name: str) -> dict[str, Judged]:
    """A loop, turned, and what is proven of its last source, if that is not the evolved one; or of one by hand. Only the
    loop itself proves its first source besides: that one is the same in all."""
    place = _place(folder, name)
    if name in BY_HAND:
        return {name: given.judge(place, {}).judge([named(BY_HAND[name])], SEEN_BY_NOBODY, "test")[0]}
    if name == "with rl":  # another recipe, so that nothing judged before counts
        evolved = given.opened(folder / "evolved", {})
        recipe = {**evolved.config.recipe.model_dump(mode="json"), "rl": RL}
        return {name: given.judge(place, {"recipe": recipe}).judge([_last(evolved)], SEEN_BY_NOBODY, "test")[0]}
    last = _last(given.turned(place, OTHERS.get(name, {}), until="" if name == "evolved" else "prove"))
    if name not in ("evolved", "blind") and last.digest == _last(given.opened(folder / "evolved", {})).digest:
        return {}
    judge = given.judge(place, {})
    if name != "evolved":
        return {name: judge.judge([last], SEEN_BY_NOBODY, "test")[0]}
    raw, mine = judge.judge([named("raw"), last], SEEN_BY_NOBODY, "test")
    without = judge.judge_data(last, mine.data.without("memory"), SEEN_BY_NOBODY, "test")
    return {"raw": raw, name: mine, "no memory": without}


def _last(loop: Loop[Any]) -> Curation:
    """The source that a loop has come to."""
    return source(loop, str((present(loop) or {})["digest"]))


def _place(folder: Path, name: str) -> Path:
    return folder / name.replace(" ", "-")


def _fork(folder: Path, names: Iterable[str]) -> None:
    """Copy the loop for each of these arms, where it is not copied yet."""
    for name in names:
        if not _place(folder, name).is_dir():
            _copy(folder / "evolved", _place(folder, name))


def _copy(folder: Path, target: Path) -> None:
    """Make a copy of a loop that stands behind its common stages; what was judged is judged in the copy, too."""
    draft = target.with_name(f".{target.name}")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(folder, draft)
    entries = [each for each in StageLedger(draft).entries if each.stage in COMMON]
    (draft / FILE).write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in entries))
    shutil.rmtree(draft / "lake" / "ledgers" / "curations", ignore_errors=True)
    for each in [*draft.glob("results/*"), *draft.glob("pieces/*")]:
        if each.name.removesuffix(".json") not in COMMON:
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    (draft / CONFIG).unlink()
    draft.rename(target)


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
