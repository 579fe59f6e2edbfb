"""How right the rules that mask turns are, and a judge: against labels written by hand.

masks/turns.jsonl ─▶ a lake of its own ─▶ `silva curate mask` ─▶ verdicts ┐
masks/labels.jsonl: the rules that should fire, and whether to keep ──────┴▶ precision, recall, every disagreement

A rule is held against the labels that name it; all rules together, and the judge, against what should be kept.

    python benchmarks/masks.py                                                           # the rules
    python benchmarks/masks.py --judge http://127.0.0.1:8000/v1#qwen --judge-with window=4   # and a model

A judge's figures go into a file of their own (`results/masks_judge.json`). They are of the turns it judged; how many it
left unjudged, and why, stands beside them, as does what all rules, and masking everything, reach on the same turns.
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
from silva.cli.config import load as configured
from silva.curate.mask.config import JudgeConfig, MaskConfig
from silva.curate.mask.masking import Masked, mask
from silva.curate.mask.rules import NAMES
from silva.curate.turn import read_walk
from silva.lake import Lake
from silva.lake.importing import take_in
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


def part(known: Mapping[Turn, Mapping[str, Any]], many: int) -> set[str]:
    """The first so many tasks of each environment, in the order of the labels; all if 0. Each was played once."""
    found: dict[str, list[str]] = defaultdict(list)
    for task in dict.fromkeys(each["task"] for each in known.values()):
        found[task.partition("/")[0]].append(task)
    return {task for tasks in found.values() for task in (tasks[:many] if many else tasks)}


async def verdicts(judge: JudgeConfig, chosen: Set[str]) -> tuple[dict[str, dict[Turn, bool]], Masked]:
    """Who masks which turn of the chosen tasks: by rule's name, and by "judge" for those turns it judged."""
    with tempfile.TemporaryDirectory() as folder:
        lake, file = str(Path(folder) / "lake"), Path(folder) / "turns.jsonl"
        lines = (SET / "turns.jsonl").read_text().splitlines(keepends=True)
        file.write_text("".join(line for line in lines if _task(line) in chosen))
        runs = (await take_in(lake, file, "messages", None)).runs
        done = await mask(MaskConfig(lake=lake, run=runs, judge=judge))
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


def _task(line: str) -> str:
    return json.loads(json.loads(line)["silva"])["task"]["id"]


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


def of_judge(
    judge: JudgeConfig, says: Mapping[Turn, bool], together: Mapping[Turn, bool], bad: Set[Turn], done: Masked
) -> Measurement:
    """What a judge's verdicts are worth, on the turns that it judged."""
    same = {turn: together[turn] for turn in says}
    rows = [
        {**row(who, given, bad & says.keys()), "unjudged": done.unjudged if who == "judge" else 0}
        for who, given in (("judge", says), ("any rule", same), ("mask everything", dict.fromkeys(says, True)))
    ]
    return Measurement(
        name="masks_judge",
        question="How right is a model that judges turns?",
        bar="every labelled turn is judged, or counted as unjudged with the reason (their share)",
        ratio=(done.judged + done.unjudged) / len(together),
        holds=done.judged + done.unjudged == len(together),
        rows=rows,
        details={
            "model": judge.model.partition("#")[2] or judge.model.partition(":")[0],
            "how": judge.model_dump(exclude={"model"}),
            "trajectories": done.trajectories,
            "turns": len(together),
            "judged": done.judged,
            "unjudged": done.unjudged,
            "should_be_masked": len(bad),
            "failures": [why.replace(judge.model.partition("#")[0], "the endpoint") for why in done.failures],
        },
    )


def main() -> int:
    """Measure and hand in."""
    parser = arguments(__doc__)
    parser.add_argument("--judge", default="", metavar="MODEL", help="a model that judges too: URL#NAME, local, …")
    parser.add_argument(
        "--judge-with", nargs="+", default=[], metavar="KEY=VALUE", help="how it is asked, as judge.KEY of curate mask"
    )
    parser.add_argument(
        "--judge-part",
        type=int,
        default=0,
        metavar="N",
        help="judge the first N tasks of each environment alone",
    )
    options = parser.parse_args()
    before = load()
    known = labels()
    chosen = part(known, options.judge_part if options.judge else 0)
    known = {turn: each for turn, each in known.items() if each["task"] in chosen}
    judge = configured(JudgeConfig, None, [*options.judge_with, f"model={json.dumps(options.judge)}"])
    said, done = asyncio.run(verdicts(judge, chosen))
    turns = set(said[NAMES[0]])
    if turns != set(known):
        raise SystemExit(f"labels.jsonl and turns.jsonl differ in {len(turns ^ set(known))} turns")
    truths = {name: {turn for turn, each in known.items() if name in each["rules"]} for name in NAMES}
    bad = {turn for turn, each in known.items() if not each["keep"]}
    together = {turn: any(said[name][turn] for name in NAMES) for turn in turns}
    if judge.model:
        for why in done.failures:
            print(f"{done.unjudged} turns unjudged: {why}")
        measured = of_judge(judge, said["judge"], together, bad, done)
        measured.quick = options.quick
        return hand_in(measured, before)
    rows = [row(name, said[name], truths[name]) for name in NAMES]
    rows.append(row("any rule, against keep", together, bad))
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
            },
            quick=options.quick,
        ),
        before,
    )


if __name__ == "__main__":
    sys.exit(main())
