"""What a program can reach by the token it is given: its own rollout, within its budget, until it ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from silva.lake import Lake
from silva.rollout import RolloutConfig, run_rollout
from silva.tree import Tree

# Works once, then tries every other door it can think of.
INTRUDER = """
import json, os, sys, urllib.error, urllib.request

base, key, own = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"], os.environ["SILVA_ROLLOUT"]

def ask(base, words):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": words}]}).encode()
    headers = {"Authorization": "Bearer " + key, "Content-Type": "application/json", "X-Session-Id": "hidden"}
    try:
        return urllib.request.urlopen(urllib.request.Request(base + "/chat/completions", body, headers)).status
    except urllib.error.HTTPError as error:
        return error.code

sibling = own[:-3] + ("1.0" if own.endswith("0.0") else "0.0")
said = {
    "own": [ask(base, f"own {place}") for place in range(3)],
    "sibling": ask(base.replace(own, sibling), "injected into the sibling"),
    "invented": ask(base.replace(own, "invented"), "hidden"),
    "run": ask(base.replace("/" + own, ""), "by the run's own address"),
    "token": ask(base.split("/r/")[0] + "/v1", "by the token alone"),
    "admin": ask(base.split("/r/")[0] + "/admin/runs/p", "admin"),
}
print(json.dumps(said))
"""


async def test_a_program_writes_into_no_other_rollout_and_not_beyond_its_budget(tmp_path: Path) -> None:
    (tmp_path / "intruder.py").write_text(INTRUDER)
    (tmp_path / "script.json").write_text(json.dumps({"otherwise": {"text": "Done."}}))
    given: dict[str, Any] = {
        "run": "p",
        "env": ("workspace",),
        "model": f"scripted:{tmp_path / 'script.json'}",
        "agent": f"program: {sys.executable} {tmp_path / 'intruder.py'} {{prompt}}",
        "lake": str(tmp_path / "lake"),
        "group": 2,
        "budget": {"turns": 2},
        "tasks": {"ids": ("workspace/sum",)},
        "program": {"mounts": [str(tmp_path)]},
    }
    result = await run_rollout(RolloutConfig.model_validate(given))
    assert len(result.trajectories) == 2
    for trajectory in result.trajectories:
        told = json.loads(trajectory.attributes["output"])
        assert told == {
            "own": [200, 200, 402],
            "sibling": 403,
            "invented": 403,
            "run": 402,  # its own rollout again: the token names it
            "token": 402,
            "admin": 401,
        }
        assert trajectory.turns == 2
    with Lake.open(tmp_path / "lake", mode="read") as lake:
        tree = Tree(lake.nodes(run_id="p"))
    asked = sorted(node.message.text for node in tree if node.message.role == "user")
    assert asked == ["own 0", "own 1"], "shared by both, and nothing else was heard"
