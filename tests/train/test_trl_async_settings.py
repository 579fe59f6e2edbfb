"""What an online run with TRL's trainer is refused before anything heavy is loaded."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from online_parts import configured
from pydantic import ValidationError

from silva.errors import MissingError, UsageError
from silva.train.online.trl_async import settings
from silva.train.online.trl_async.settings import arguments, refuse


class Grpo:
    """GRPO's parameters without torch."""

    name = "grpo"
    clip_low, clip_high = 0.2, 0.28
    ratio = normalise = "token"
    kl = 0.0
    truncate = distillation = None

    def __init__(self, **changes: Any) -> None:
        vars(self).update(changes)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"engine": "trl"}, "trl-async"),
        ({"trl": {"attention": "fa3"}}, "trl: goes with engine: trl-async"),
        ({"engine": "trl-async", "scale": {"processes": 2}}, "trains in one process"),
        ({"serve": {"python": "python3"}}, "go with engine: vllm"),
        ({"serve": {"engine": "vllm"}, "policy": {"method": "full"}}, "vllm holds adapters"),
        ({"serve": {"engine": "vllm"}, "policy": {"adapter": {"rank": 128}}}, "ranks up to 64"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path: Path, fields: dict[str, Any], message: str):
    with pytest.raises(ValidationError, match=message):
        configured(tmp_path, **fields)


@pytest.mark.parametrize(
    ("algorithm", "fields", "message"),
    [
        (Grpo(name="sft"), {}, "trains grpo, not sft"),
        (Grpo(kl=0.1), {}, "no kl"),
        (Grpo(truncate=2.0), {}, "no truncate"),
        (Grpo(distillation=object()), {}, "no distillation"),
        (Grpo(ratio="sequence"), {}, "no ratio: sequence"),
        (Grpo(normalise="constant"), {}, "no normalise: constant"),
        (Grpo(), {"teacher": {"weights": "local"}}, "teacher has no counterpart"),
        (Grpo(), {"optimiser": {"floor": 0.1}}, "optimiser.floor has no counterpart"),
    ],
)
def test_what_trl_has_not_is_refused_by_name(tmp_path: Path, algorithm: Any, fields: dict[str, Any], message: str):
    with pytest.raises(UsageError, match=f"engine trl-async: .*{message}") as caught:
        refuse(configured(tmp_path, engine="trl-async", **fields), algorithm)
    assert "\n" not in str(caught.value) and "engine: local" in str(caught.value)


def test_a_missing_extra_is_said_with_its_command(monkeypatch: pytest.MonkeyPatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "trl" else real("json", *more))
    with pytest.raises(MissingError, match=r"training needs trl.*pip install 'silva\[trl\]'"):
        settings.require_trl()


@pytest.mark.parametrize(
    ("dtype", "method", "cuda", "loaded", "half"),
    [
        ("auto", "lora", True, "bfloat16", True),
        ("auto", "lora", False, "float32", False),
        ("auto", "full", True, "float32", True),
        ("bfloat16", "full", False, "float32", True),
        ("float32", "lora", True, "float32", False),
    ],
)
def test_whole_weights_are_always_masters_in_float32(
    tmp_path: Path, dtype: str, method: str, cuda: bool, loaded: str, half: bool
):
    config = configured(tmp_path, engine="trl-async", staleness=2, policy={"dtype": dtype, "method": method})
    said = arguments(config, Grpo(), cuda)
    assert (said["dtype"], said["bf16"], said["use_cpu"]) == (loaded, half, not cuda)
    assert said["max_staleness"] == 2 and (said["epsilon"], said["epsilon_high"]) == (0.2, 0.28)
