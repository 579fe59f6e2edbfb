"""Candidates as pairs: the exact ids that were drawn, what the two sides are like, and how right a verifier was."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from silva.cli.curate import app
from silva.curate.pair_statistics import bleu, pair_statistics
from silva.curate.pairs import candidate_pairs, pairs_of_run, read_pairs
from silva.curate.value_head import Step, fit
from silva.curate.verifier_accuracy import verifier_accuracy
from silva.errors import UsageError
from silva.lake import Lake
from silva.models.tiny.folder import write_tiny
from silva.models.tiny.shape import Shape
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.branching.verifiers.registry import make
from silva.rollout.branching.verifiers.value import read_head, write_head
from silva.rollout.conversations import expert_conversations
from silva.rollout.judged import searches
from silva.train.sample_file import read_samples
from silva.train.step_pairs import preferences

pytest.importorskip("tokenizers")
pytest.importorskip("safetensors")

COUNTING = Path(__file__).parents[1] / "rollout" / "drifting.py"


def test_a_search_gives_the_best_against_the_worst_with_the_ids_that_were_drawn(tmp_path: Path) -> None:
    env = f"{COUNTING}:Counting"
    said = asyncio.run(expert_conversations(env, split="test", limit=1))
    write_tiny(tmp_path / "tiny", said, Shape(width=16, inner=16, layers=1, heads=1, key_heads=1))
    settings: dict[str, Any] = {
        "run": "r",
        "env": env,
        "policy": "expert",
        "slips": 0.6,
        "seed": 3,
        "agent": "react",
        "renderer": str(tmp_path / "tiny"),
        "lake": str(tmp_path / "lake"),
        "group": 2,
        "hosts": {"inline": True},
        "stages": {"candidates": {"n": 4, "verifier": "rules", "also": ["completions", "random"]}},
    }
    asyncio.run(run_rollout(RolloutConfig.model_validate(settings)))
    with Lake.open(tmp_path / "lake", mode="read") as lake:
        found = pairs_of_run(lake, "r", lambda tree, of: candidate_pairs(tree, of, by="completions"))
        searched = list(searches(lake.nodes(run_id="r")))
        assert len(found.pairs) + found.left.total() == found.searches == len(searched)
        assert found.pairs and set(found.left) <= {"all candidates said the same", "the scores do not part"} | {
            f"fewer than two candidates have a score by {name}" for name in ("completions",)
        }
        every = pairs_of_run(lake, "r", lambda tree, of: candidate_pairs(tree, of, by="completions", every=True))
        assert {each.rejected_id for each in found.pairs} <= {each.rejected_id for each in every.pairs}
        made, left = preferences(lake, [each.steps for each in found.pairs])
        assert not left
        for pair, preference in zip(found.pairs, made, strict=True):
            for side, name in ((preference.chosen, pair.chosen_id), (preference.rejected, pair.rejected_id)):
                node = lake.tree(pair.tree_id).node(name)
                assert node.parent_id == pair.parent_id and node.tokens is not None
                learnt = np.flatnonzero(side.mask)
                assert side.ids[learnt].tolist() == list(node.tokens.ids[-node.tokens.sampled :])
                assert learnt[-1] == len(side) - 1, "and nothing stands behind it"
        described = pair_statistics(found.pairs, lake.tree)
        assert described.rejected.tools["delete_all"] and described.rejected.errors > described.chosen.errors == 0
        assert described.gap is not None and 0 < described.gap <= 1
        right = verifier_accuracy(searched, "completions")
        assert right.order is not None and right.order.value == 1.0 and right.pick is not None
        lots = verifier_accuracy(searched, "random")
        assert lots.order is not None and lots.order.value < 1.0 and lots.chance is not None

    words = ["pairs", "--run", "r", "--by", "completions", "--lake", str(tmp_path / "lake"), "--json"]
    files = ["-o", str(tmp_path / "pairs.jsonl"), "--samples", str(tmp_path / "pairs.samples")]
    done = CliRunner().invoke(app, [*words, *files], standalone_mode=False)
    shown = json.loads(done.stdout)
    assert shown["pairs"] == shown["exact"] == len(found.pairs) and done.return_value == 0
    assert read_pairs(tmp_path / "pairs.jsonl") == found.pairs
    assert len(list(read_samples(tmp_path / "pairs.samples"))) == 2 * len(found.pairs)
    assert [each["verifier"] for each in shown["accuracy"]] == ["random", "rules"]


def test_a_value_head_learns_what_words_tell_and_says_how_right_it_is(tmp_path: Path) -> None:
    steps = [
        Step(f"count to {goal}", f"{name} {{}}\n{turn}", float(name == "count"), f"t{goal}", f"t{goal}")
        for goal in range(10)
        for name in ("count", "delete_all")
        for turn in range(3)
    ]
    head = fit(steps, name="h")
    assert head.told["order"] == 1.0 and 0 < head.told["held_out_tasks"] < 10
    write_head(tmp_path / "h.npz", head)
    good, bad = read_head(tmp_path / "h.npz").values("count to 77", ["count {}\n8", "delete_all {}\n8"])
    assert good > bad
    (tmp_path / "h.npz").write_bytes(b"PK\x03\x04 no head")
    with pytest.raises(UsageError, match=r"h.npz: cannot be read .*; make one: silva curate value-head"):
        make("value", {"file": str(tmp_path / "h.npz")})
    with pytest.raises(UsageError, match="60 steps with 1 different values are too few"):
        fit([replace(each, value=1.0) for each in steps])


def test_bleu_is_one_for_the_same_words_and_falls_with_what_differs() -> None:
    said = ["act", "action", "go", "to", "the", "red", "ball"]
    assert bleu(said, said) == pytest.approx(1.0)
    near, far = bleu([*said[:-1], "key"], said), bleu(["drop", "it"], said)
    assert 1.0 > near > far == 0.0
    assert bleu(said[:3], said) < bleu(said[:5], said) < 1.0, "a shorter text is penalised"
    assert bleu([], said) == 0.0 and bleu([], []) == 1.0
