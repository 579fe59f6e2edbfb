"""The rules against the turns labelled by hand: as right as the figures that are told, and no less."""

from __future__ import annotations

import json
from pathlib import Path

from silva.curate.mask.rules import NAMES, rules
from silva.curate.turn import read_walk
from silva.tree.formats import messages

HERE = Path(__file__).parents[2] / "benchmarks"
SET = HERE / "masks"


def test_the_rules_are_as_right_as_the_figures_say() -> None:
    labels = {}
    for line in (SET / "labels.jsonl").read_text().splitlines():
        label = json.loads(line)
        assert set(label["rules"]) <= set(NAMES) and label["reason"]
        labels[label["trajectory"], label["turn"]] = label
    known = json.loads((HERE / "results" / "masks.json").read_text())["details"]["disagreements"]
    told = {(each["task"], each["turn"], each["rule"]) for each in known}
    seen = set()
    with (SET / "turns.jsonl").open("rb") as file:
        for bundle in messages.read(file, "turns.jsonl"):
            for trajectory in bundle.trajectories:
                walk = read_walk(bundle.walk(trajectory))
                seen |= {(trajectory.id, turn.number) for turn in walk.turns}
                for rule in rules():
                    masked = {finding.turn.number for finding in rule.find(walk)}
                    for turn in walk.turns:
                        label = labels[trajectory.id, turn.number]
                        if (turn.number in masked) != (rule.name in label["rules"]):
                            assert (label["task"], turn.number, rule.name) in told, label["reason"]
    assert seen == set(labels) and len(seen) >= 200
