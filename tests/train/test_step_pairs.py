"""Sibling steps as samples: the exact ids up to one action, with loss on that action alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from silva.lake import Lake
from silva.models.tiny.folder import write_tiny
from silva.models.tiny.shape import Shape
from silva.rollout import RolloutConfig, run_rollout
from silva.rollout.conversations import expert_conversations
from silva.rollout.guided_nodes import takes_turn
from silva.train.lake_samples import Refused, collect
from silva.train.sample import Sample, SampleError
from silva.train.step_pairs import preferences, step_sample, step_samples
from silva.train.stretch import Reading

pytest.importorskip("tokenizers")
pytest.importorskip("safetensors")


def test_a_step_is_its_context_and_one_action(tmp_path: Path) -> None:
    said = asyncio.run(expert_conversations("arithmetic", split="chain", limit=4))
    write_tiny(tmp_path / "tiny", said, Shape(width=16, inner=16, layers=1, heads=1, key_heads=1))
    settings = RolloutConfig.model_validate(
        {
            "run": "r",
            "env": "arithmetic",
            "policy": "expert",
            "agent": "react",
            "renderer": str(tmp_path / "tiny"),
            "lake": str(tmp_path / "lake"),
            "tasks": {"split": "chain", "limit": 2},
            "hosts": {"inline": True},
        }
    )
    asyncio.run(run_rollout(settings))
    with Lake.open(tmp_path / "lake", mode="read") as lake:
        one, other = lake.trajectories(run_id="r")
        acts = [node.id for node in lake.walk(one) if takes_turn(node)]
        (whole,) = collect(lake, [one], Reading(logprobs="optional")).samples
        step = step_sample(lake, one.id, acts[1])
        action = whole.actions[1]
        assert (
            np.array_equal(step.ids, whole.ids[: action.stop]) and [each.node_id for each in step.actions] == acts[:2]
        )
        assert np.flatnonzero(step.mask).tolist() == list(range(action.start, action.stop))

        # Sides of different contexts, and a node that is no action, are told and left out.
        theirs = [node.id for node in lake.walk(other) if takes_turn(node)]
        made, left = preferences(
            lake, [((one.id, acts[1]), (other.id, theirs[1])), ((one.id, "none"), (one.id, acts[0]))]
        )
        assert made == [] and "differ" in left[0] and "no ids that carry loss" in left[1]
        steps = [(each.id, node) for each, nodes in ((one, acts), (other, theirs)) for node in nodes]
        known = step_samples(lake, [*steps, (one.id, "none")])
        assert isinstance(known.pop((one.id, "none")), Refused) and list(known) == steps
        for (trajectory, node), each in known.items():
            assert isinstance(each, Sample) and each.trajectory_id == trajectory and each.actions[-1].node_id == node
        with pytest.raises(SampleError, match="has no ids that carry loss"):
            step_sample(lake, one.id, theirs[0])
