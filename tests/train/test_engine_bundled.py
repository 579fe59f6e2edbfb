"""End to end with the bundled model: its answer is trained to change, and Silva's own server then gives the new one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiny_llama  # noqa: F401 - sets how torch's threads wait, before torch reads it

from silva.errors import MissingError
from silva.train.config import PolicyConfig
from silva.train.sample import Sample

pytestmark = pytest.mark.slow

pytest.importorskip("torch")
pytest.importorskip("peft")


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.weekly)])
def test_a_trained_answer_is_served(tmp_path: Path, dtype: str):
    from transformers import AutoTokenizer

    from silva.models.bundled import weights_folder
    from silva.train.algorithms import algorithm
    from silva.train.engines.local import LocalEngine
    from silva.train.engines.sampler import Sampler
    from silva.train.engines.weights import computed_in

    try:
        weights = weights_folder()
    except MissingError as missing:
        pytest.skip(str(missing))
    tokenizer = AutoTokenizer.from_pretrained(weights)
    messages = [{"role": "user", "content": "What is the capital city of Japan?"}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    answer = [*tokenizer.encode("A forest called Silva.", add_special_tokens=False), tokenizer.eos_token_id]
    ids = np.array(prompt + answer, np.int32)
    drawn = np.arange(len(ids)) >= len(prompt)
    nothing = np.zeros(len(ids), np.float32)
    taught = Sample(ids=ids, mask=drawn, drawn=drawn, logprobs=nothing, advantages=nothing, weights=nothing + 1)
    engine = LocalEngine(PolicyConfig(dtype=dtype))  # pyright: ignore[reportArgumentType]
    sampler = Sampler(weights, computed_in(dtype))
    try:
        asked = {"most_tokens": len(answer) + 4, "temperature": 0.0, "seed": 0, "ends": None}
        assert "Tokyo" in tokenizer.decode(sampler.draw([prompt], **asked)[0].ids)
        for _ in range(6 if dtype == "float32" else 5):
            engine.forward_backward([taught], algorithm("sft"))
            engine.optim_step(2e-3)
        sampler.adopt(engine.save_weights_for_sampler(tmp_path / "policy"))
        (served,) = sampler.draw([prompt], **asked)
        assert list(served.ids) == answer and served.finish == "stop"
        (mine,) = engine.logprobs([taught])
        np.testing.assert_allclose(mine, served.logprobs, atol=1e-3 if dtype == "float32" else 0.15)
    finally:
        sampler.close()
        engine.close()
