"""How right the rules that mask turns are, and a judge: against labels written by hand.

masks/turns.jsonl ─▶ a lake of its own ─▶ `silva curate mask` ─▶ verdicts ┐
masks/labels.jsonl: the rules that should fire, and whether to keep ──────┴▶ precision, recall, every disagreement

A rule is held against the labels that name it; all rules together, and the judge, against what should be kept.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from report import Measurement, arguments, hand_in, load
from silva.cli.trees_files import take_in
from silva.curate.mask.config import JudgeConfig, MaskConfig
from silva.curate.mask.masking import Masked, mask
from silva.curate.mask.rules import NAMES
from silva.curate.turn import read_walk
from silva.lake import Lake
from silva.report.interval import Interval, proportion

SET = Path(__file__).parent / "masks"
Turn = tuple[str, int]
"""A trajectory's id and the turn's number."""


def labels() -> dict[Turn, dict[str, Any]]:
    """What was written by hand of every turn."""
    rows = [json.loads(line) for line in (SET / "labels.jsonl").read_text().splitlines()]
    found = {(row["trajectory"], row["turn"]): row for row in rows}
    if len(found) != len(rows):
        raise SystemExit("labels.jsonl: a turn is labelled twice")
    return found


async def verdicts(judge: str) -> tuple[dict[str, dict[Turn, bool]], Masked]:
    """Who masks which turn: by rule's name, and by "judge" for those turns that it judged."""
    with tempfile.TemporaryDirectory() as folder:
        lake = str(Path(folder) / "lake")
        runs = (await take_in(lake, SET / "turns.jsonl", "messages", None)).runs
        done = await mask(MaskConfig(lake=lake, run=runs, judge=JudgeConfig(model=judge)))
        said: dict[str, dict[Turn, bool]] = defaultdict(dict)
        with Lake.open(lake, mode="read") as opened:
            for run in runs:
                place = {
                    turn.action.id: (each.id, turn.number)
                    for each in opened.trajectories(run_id=run)
                    for turn in read_walk(opened.walk(each)).turns
                }
                for name in NAMES:
                    said[name] |= dict.fromkeys(place.values(), False)
                for each in opened.supervisions(run_id=run):
                    who = "judge" if each.source == "model" else each.by
                    said[who][place[each.node_id]] = each.verdict == "mask"
    return said, done


def row(name: str, says: Mapping[Turn, bool], truth: Set[Turn]) -> dict[str, Any]:
    """Precision and recall of one, with 95 % intervals by trajectory."""
    given: dict[str, list[bool]] = defaultdict(list)
    wanted: dict[str, list[bool]] = defaultdict(list)
    for turn, masks in sorted(says.items()):
        if masks:
            given[turn[0]].append(turn in truth)
        if turn in truth:
            wanted[turn[0]].append(masks)
    right = sum(map(sum, wanted.values()))
    return {
        "who": name,
        "turns": len(says),
        "should": sum(map(len, wanted.values())),
        "does": sum(map(len, given.values())),
        "both": right,
        "precision": _told(proportion(list(given.values()))),
        "recall": _told(proportion(list(wanted.values()))),
    }


def _told(found: Interval | None) -> str:
    return "-" if found is None else f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


def main() -> int:
    """Measure and hand in."""
    parser = arguments(__doc__)
    parser.add_argument("--judge", default="", metavar="URL#MODEL", help="a model that judges too")
    options = parser.parse_args()
    before = load()
    known = labels()
    judge = options.judge.partition("#")[2] or options.judge.partition(":")[0]
    said, done = asyncio.run(verdicts(options.judge))
    turns = set(said[NAMES[0]])
    if turns != set(known):
        raise SystemExit(f"labels.jsonl and turns.jsonl differ in {len(turns ^ set(known))} turns")
    truths = {name: {turn for turn, each in known.items() if name in each["rules"]} for name in NAMES}
    bad = {turn for turn, each in known.items() if not each["keep"]}
    rows = [row(name, said[name], truths[name]) for name in NAMES]
    together = {turn: any(said[name][turn] for name in NAMES) for turn in turns}
    rows.append(row("any rule, against keep", together, bad))
    if options.judge:
        rows.append(row("judge, against keep", said["judge"], bad))
    against = [
        {"task": known[turn]["task"], "turn": turn[1], "rule": name, "does": said[name][turn]}
        | {"label": known[turn]["reason"]}
        for name in NAMES
        for turn in sorted(turns, key=lambda each: (known[each]["task"], each[1]))
        if said[name][turn] != (turn in truths[name])
    ]
    for each in against:
        print(
            f"{each['rule']}: {'fires' if each['does'] else 'is silent'}: {each['task']} {each['turn']}: {each['label']}"
        )
    for why in done.failures:
        print(f"{done.unjudged} turns unjudged: {why}")
    fewest = min(len(truth) for truth in truths.values())
    return hand_in(
        Measurement(
            name="masks",
            question="How right are the rules that mask turns?",
            bar="at least 200 turns labelled by hand (their number over 200), with at least 8 that each rule should mask",
            ratio=len(turns) / 200,
            holds=len(turns) >= 200 and fewest >= 8,
            rows=rows,
            details={
                "trajectories": len({turn[0] for turn in turns}),
                "environments": sorted({each["task"].split("/")[0] for each in known.values()}),
                "should_be_masked": len(bad),
                "disagreements": against,
                "judge": {"model": judge, "judged": done.judged, "unjudged": done.unjudged, "failures": done.failures}
                if judge
                else None,
            },
            quick=options.quick,
        ),
        before,
    )


if __name__ == "__main__":
    sys.exit(main())
