"""The local engine on a tiny llama: against transformers, itself cut otherwise, and Silva's own server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_llama import WORDS, group, pair, sample, tokenizer_folder, weights_folder

from silva.errors import UsageError
from silva.train.config import AdapterConfig, OptimiserConfig, PolicyConfig, ScratchConfig, TeacherConfig
from silva.train.sample import Image, Sample, SampleError

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
pytest.importorskip("peft")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return weights_folder(tmp_path_factory.mktemp("weights") / "base")


@pytest.fixture
def engines(base: Path) -> Iterator[object]:
    from silva.train.engines.local import LocalEngine

    opened: list[LocalEngine] = []

    def make(**said: object) -> LocalEngine:
        own = {"optimiser", "teacher", "micro_tokens", "temperature", "seed"}
        policy = {"weights": str(base), "dtype": "float32", "adapter": {"rank": 4}}
        policy |= {key: value for key, value in said.items() if key not in own}
        if "scratch" in policy:
            del policy["weights"]
        rest = {key: value for key, value in said.items() if key in own}
        opened.append(LocalEngine(PolicyConfig.model_validate(policy), **rest))  # pyright: ignore[reportArgumentType]
        return opened[-1]

    yield make
    for engine in opened:
        engine.close()


def drawn(count: int, seed: int = 0) -> list[Sample]:
    generator = np.random.default_rng(seed)
    return [sample(generator) for _ in range(count)]


def algorithm(name: str, **parameters: object):
    from silva.train.algorithms import algorithm as find

    return find(name, parameters)


def gradients(engine) -> dict[str, np.ndarray]:
    return {name: master.grad.numpy().copy() for name, master in engine._optimiser.masters.items()}


def trained(engine, samples: list[Sample], steps: int, rate: float = 1e-2) -> list[float]:
    losses = []
    for _ in range(steps):
        losses.append(engine.forward_backward(samples, algorithm("sft")).loss)
        engine.optim_step(rate)
    return losses


def theirs(folder: Path, samples: list[Sample], temperature: float = 1.0) -> list[np.ndarray]:
    """Log-probabilities by transformers, one sample at a time, all logits."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    found = []
    for each in samples:
        with torch.no_grad():
            logits = model(torch.from_numpy(each.ids.astype(np.int64))[None]).logits[0] / temperature
        at = np.flatnonzero(each.mask)
        found.append(logits.log_softmax(-1)[at - 1, each.ids[at]].numpy())
    return found


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_are_those_of_transformers_and_samples_do_not_see_each_other(engines, base: Path, temperature: float):
    samples = drawn(8)
    expected = theirs(base, samples, temperature)
    engine = engines(temperature=temperature)
    for mine, other in zip(engine.logprobs(samples), expected, strict=True):
        np.testing.assert_allclose(mine, other, atol=2e-5)
    together = engines(temperature=temperature, micro_tokens=10_000).evaluate(samples, algorithm("sft"))
    weights = np.concatenate([each.weights[each.mask] for each in samples])
    assert together.loss == pytest.approx(-float((np.concatenate(expected) * weights).sum() / weights.sum()), abs=1e-5)


def test_what_is_read_ends_at_the_last_loss_and_the_rest_changes_nothing(engines):
    each = drawn(1)[0]
    early = replace(each, mask=each.mask & (np.arange(len(each)) < len(each) - 4))
    early.mask[len(each) - 6] = True
    other = replace(early, ids=early.ids.copy())
    other.ids[-4:] = 1
    engine = engines()
    first, second = engine.evaluate([early], algorithm("sft")), engine.evaluate([other], algorithm("sft"))
    assert first.loss == second.loss
    assert first.tokens < len(each) - 1


CASES = {
    "sft": ("sft", {}, {}),
    "sft by sequence": ("sft", {"normalise": "sequence"}, {}),
    "dpo": ("dpo", {}, {}),
    "ipo": ("dpo", {"kind": "ipo"}, {}),
    "grpo with a pull": ("grpo", {"kl": 0.1}, {}),
    "gspo": ("grpo", {"ratio": "sequence", "normalise": "sequence"}, {}),
    "opd": ("opd", {}, {"teacher": True}),
    "forward kl": ("opd", {"form": "forward_kl"}, {"teacher": True}),
    "reverse kl": ("opd", {"form": "reverse_kl"}, {"teacher": True}),
}


def laid_out(name: str, loss) -> list[Sample]:
    generator = np.random.default_rng(1)
    if name == "dpo":
        return [side for _ in range(5) for side in pair(generator)]
    if name == "grpo":
        return [member for task in range(3) for member in loss.score(group(generator, f"t{task}"))]
    return drawn(9)


@pytest.mark.parametrize("method", ["lora", "full"])
@pytest.mark.parametrize("case", CASES)
def test_a_step_is_the_same_however_it_is_cut(engines, tmp_path: Path, method: str, case: str):
    name, parameters, wants = CASES[case]
    loss = algorithm(name, **parameters)
    samples = laid_out(name, loss)
    said: dict[str, object] = {"method": method, "seed": 3}
    if wants:
        said["teacher"] = TeacherConfig(weights=str(weights_folder(tmp_path / "teacher", seed=5)), top=4)
    results, found = [], []
    for micro_tokens in (100_000, 40, 16):
        engine = engines(micro_tokens=micro_tokens, **said)
        trained(engine, drawn(4, seed=9), 2)  # away from the start, where adapters and margins are nought
        results.append(engine.forward_backward(samples, loss))
        found.append(gradients(engine))
    assert sum(float((values**2).sum()) for values in found[0].values()) > 0
    for result, values in zip(results[1:], found[1:], strict=True):
        assert result.loss == pytest.approx(results[0].loss, rel=1e-4, abs=1e-6)
        assert result.metrics == pytest.approx(results[0].metrics, rel=1e-3, abs=1e-5)
        for key, value in values.items():
            np.testing.assert_allclose(value, found[0][key], rtol=2e-3, atol=2e-5, err_msg=key)


def test_the_reference_is_the_policy_as_it_began(engines, base: Path, tmp_path: Path):
    generator = np.random.default_rng(2)
    pairs = [side for _ in range(4) for side in pair(generator)]
    for said in ({"method": "lora"}, {"method": "full"}):
        engine = engines(**said)
        assert engine.evaluate(pairs, algorithm("dpo")).loss == pytest.approx(np.log(2), abs=1e-6)
        trained(engine, pairs[::2], 5)
        before = engine.logprobs(pairs)
        moved = engine.evaluate(pairs, algorithm("dpo"))
        assert moved.metrics["accuracy"] == 1.0
        assert moved.loss < 0.6
        for mine, after in zip(before, engine.logprobs(pairs), strict=True):
            np.testing.assert_array_equal(mine, after, "measuring the reference changed the policy")
    adapter = engines()
    trained(adapter, pairs[::2], 5)
    start = adapter.save_weights_for_sampler(tmp_path / "start")
    further = engines(start=start)
    assert further.evaluate(pairs, algorithm("dpo")).loss == pytest.approx(np.log(2), abs=1e-6)


def test_bfloat16_updates_smaller_than_its_grain_are_not_lost(engines):
    samples = drawn(4)
    coarse = engines(dtype="bfloat16", method="full", optimiser=OptimiserConfig(clip=None))
    name, master = next((name, master) for name, master in coarse._optimiser.masters.items() if master.dim() > 1)
    began = master.detach().clone()
    for _ in range(3):
        coarse.forward_backward(samples, algorithm("sft"))
        coarse.optim_step(1e-6)
    moved = (master.detach() - began).abs().max()
    assert 1e-6 < float(moved) < 1e-5, name
    assert master.dtype == torch.float32


def test_a_gradient_that_is_no_number_leaves_the_weights(engines):
    engine = engines()
    engine.forward_backward(drawn(2), algorithm("sft"))
    next(iter(engine._optimiser.masters.values())).grad[0] = float("nan")
    before = engine.logprobs(drawn(2))
    update = engine.optim_step(1.0)
    assert not update.applied and engine.step == 0
    for mine, after in zip(before, engine.logprobs(drawn(2)), strict=True):
        np.testing.assert_array_equal(mine, after)


@pytest.mark.parametrize("said", [{"dropout": 0.3}, {"dropout": 0.0}])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_state_goes_on_bit_for_bit(engines, tmp_path: Path, said: dict[str, float], dtype: str):
    samples = drawn(6)
    own = {"adapter": {"rank": 4, **said}, "dtype": dtype}
    straight = engines(**own)
    expected = trained(straight, samples, 6)
    engine = engines(**own)
    assert trained(engine, samples, 3) == expected[:3]
    engine.save_state(tmp_path)
    torch.manual_seed(12345)
    again = engines(seed=99, **own)
    again.load_state(tmp_path)
    assert again.step == 3
    assert trained(again, samples, 3) == expected[3:]


def test_a_run_with_anothers_moments_goes_on_as_if_both_were_one(engines, tmp_path: Path):
    samples, checkpoint = drawn(6), tmp_path / "checkpoint"
    whole = engines(method="full")
    trained(whole, samples, 4)
    first = engines(method="full")
    trained(first, samples, 2)
    (checkpoint / "engine").mkdir(parents=True)
    first.save_state(checkpoint / "engine")
    weights = {"method": "full", "weights": str(first.save_weights_for_sampler(tmp_path / "policy"))}
    carried = engines(**weights, optimiser=OptimiserConfig(moments=checkpoint))
    fresh = engines(**weights)
    for engine in (carried, fresh):
        trained(engine, samples, 2)
    expected, *ends = (engine._optimiser.copy() for engine in (whole, carried, fresh))
    apart = [max(float((value - end[name]).abs().max()) for name, value in expected.items()) for end in ends]
    assert apart[0] == 0 and apart[1] > 1e-3, "a fresh optimiser's first step moves every weight by the whole rate"
    with pytest.raises(UsageError, match=r"optimiser.moments: .*checkpoint has none of .*another setup"):
        engines(optimiser=OptimiserConfig(moments=checkpoint))
    with pytest.raises(UsageError, match=r"optimiser.moments: .*nowhere cannot be read"):
        engines(optimiser=OptimiserConfig(moments=tmp_path / "nowhere"))


def test_a_state_of_another_setup_is_refused_by_name(engines, tmp_path: Path):
    engine = engines()
    trained(engine, drawn(2), 1)
    engine.save_state(tmp_path)
    for other, said in (
        ({"adapter": {"rank": 8}}, "of shape"),
        ({"adapter": {"rank": 4, "targets": ["q_proj"]}}, "not trained here"),
        ({"dtype": "bfloat16"}, "computed in"),
    ):
        with pytest.raises(UsageError, match=said):
            engines(**other).load_state(tmp_path)


@pytest.mark.parametrize("method", ["lora", "full"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_silvas_own_server_says_what_the_trainer_says(engines, base: Path, tmp_path: Path, method: str, dtype: str):
    from silva.models.local.adapter import read_adapter
    from silva.models.local.network import Network

    samples = drawn(5)
    engine = engines(method=method, dtype=dtype)
    trained(engine, samples, 20)
    folder = engine.save_weights_for_sampler(tmp_path / "policy")
    network = Network(base if method == "lora" else folder, torch.float32)
    adapter = read_adapter(folder, network, "base") if method == "lora" else None
    plain = Network(base, torch.float32)
    moved = 0.0
    for each, mine in zip(samples, engine.logprobs(samples), strict=True):
        at = np.flatnonzero(each.mask)
        served, before = [], []
        for position in at:
            ids = each.ids[:position].tolist()
            for net, with_, into in ((network, adapter, served), (plain, None, before)):
                logits = net.prefill(_cache(net), 0, [ids], [0], [with_])[0]
                into.append(float(logits.log_softmax(-1)[each.ids[position]]))
        np.testing.assert_allclose(mine, served, atol=2e-4 if dtype == "float32" else 0.15)
        moved = max(moved, float(np.abs(np.array(served) - before).max()))
    assert moved > 1.0, "training must have changed the answers for this test to say anything"


def _cache(network):
    cache = network.cache(10_000)
    cache.reserve(1, 200)
    return cache


@pytest.mark.parametrize("method", ["lora", "full"])
def test_it_draws_with_the_weights_it_has(engines, method: str):
    prompt = [3, 1, 4, 1, 5]
    answer = [9, 2, 6, 5, 3, WORDS - 1]
    taught = Sample(
        ids=np.array(prompt + answer, np.int32),
        mask=np.arange(11) >= 5,
        drawn=np.arange(11) >= 5,
        logprobs=np.zeros(11, np.float32),
        advantages=np.zeros(11, np.float32),
        weights=np.ones(11, np.float32),
    )
    engine = engines(method=method)
    before = engine.sample([prompt], most_tokens=12, temperature=0)[0]
    assert list(before.ids) != answer
    trained(engine, [taught], 40)
    after = engine.sample([prompt, prompt[:2]], most_tokens=12, temperature=0)
    assert list(after[0].ids) == answer and after[0].finish == "stop"
    np.testing.assert_allclose(after[0].logprobs, engine.logprobs([taught])[0], atol=1e-4)
    one, two = (engine.sample([prompt[:1]], most_tokens=6, temperature=2.0, seed=7)[0] for _ in range(2))
    assert one == two
    with pytest.raises(UsageError, match="prompt 0: 0 ids"):
        engine.sample([[]], most_tokens=2)


def test_random_weights_learn_from_a_shape_and_a_seed(engines, tmp_path: Path):
    shape = ScratchConfig(
        tokenizer=tokenizer_folder(tmp_path / "words"), width=32, layers=2, heads=4, key_heads=2, inner=64, context=64
    )
    samples = drawn(4)
    first, second = (engines(scratch=shape, method="full", seed=4) for _ in range(2))
    losses = trained(first, samples, 40)
    assert losses[:3] == trained(second, samples, 3)
    assert engines(scratch=shape, method="full", seed=5).evaluate(samples, algorithm("sft")).loss != losses[0]
    assert losses[0] == pytest.approx(np.log(WORDS), abs=0.5)
    assert losses[-1] < 0.2
    folder = first.save_weights_for_sampler(tmp_path / "policy")
    assert (folder / "tokenizer.json").is_file()
    for mine, other in zip(first.logprobs(samples), theirs(folder, samples), strict=True):
        np.testing.assert_allclose(mine, other, atol=2e-5)


def test_what_the_policy_cannot_read_is_refused_by_name(engines):
    each = replace(drawn(1)[0], trajectory_id="abcdef123456", task_id="t")
    engine = engines()
    sft, grpo = algorithm("sft"), algorithm("grpo")
    long = np.zeros(200, np.int32)
    tall = Sample(
        ids=long,
        mask=long < 0,
        drawn=long < 0,
        logprobs=long.astype(np.float32),
        advantages=long.astype(np.float32),
        weights=long.astype(np.float32),
        trajectory_id="abcdef123456",
    )
    foreign = replace(each, ids=each.ids + WORDS)
    alike = replace(each, attributes={"tokenizer": "of as many tokens"})
    seen = replace(each, images=(Image(hash="h", position=0),))
    unknown = replace(each, logprobs=np.where(each.drawn, np.nan, 0).astype(np.float32))
    for wrong, loss, said in (
        (tall, sft, "context holds 128"),
        (foreign, sft, "another tokenizer"),
        (alike, sft, "another tokenizer"),
        (seen, sft, "images"),
        (unknown, grpo, "has no log-probabilities"),
    ):
        with pytest.raises(SampleError, match=said) as refused:
            engine.forward_backward([wrong], loss)
        assert "abcdef123456" in str(refused.value)
    with pytest.raises(SampleError, match="1 samples are no pairs"):
        engine.forward_backward([each], algorithm("dpo"))
    with pytest.raises(UsageError, match="needs a teacher"):
        engine.forward_backward([each], algorithm("opd"))


def test_an_adapter_of_another_shape_and_a_teacher_with_another_tokenizer_are_refused(engines, tmp_path: Path):
    engine = engines()
    trained(engine, drawn(2), 1)
    folder = engine.save_weights_for_sampler(tmp_path / "adapter")
    config = json.loads((folder / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "base", "no path of this machine may stand in an adapter"
    (folder / "adapter_config.json").write_text(json.dumps(config | {"r": 8}))
    with pytest.raises(UsageError, match="of shape"):
        engines(start=folder)
    stranger = weights_folder(tmp_path / "stranger")
    (stranger / "tokenizer.json").write_text((stranger / "tokenizer.json").read_text().replace("w5", "v5"))
    with pytest.raises(UsageError, match="another tokenizer"):
        engines(teacher=TeacherConfig(weights=str(stranger)))
    (stranger / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(UsageError, match="model_type is gpt2"):
        engines(weights=str(stranger))
    with pytest.raises(UsageError, match=r"no config\.json"):
        engines(weights=str(tmp_path / "nowhere"))


def test_gradients_of_token_logprobs_are_those_of_torch():
    from silva.train.engines import token_logprobs as module

    torch.manual_seed(0)
    module_chunk, module.CHUNK = module.CHUNK, 7
    try:
        for frozen in (True, False):
            hidden = torch.randn(20, 8, dtype=torch.float32, requires_grad=True)
            head = torch.randn(30, 8, dtype=torch.float32, requires_grad=not frozen)
            ids = torch.stack([torch.randperm(30)[:3] for _ in range(20)])
            outer = torch.randn(20, 3)
            found = module.token_logprobs(hidden, head, ids, 0.8)
            (found * outer).sum().backward()
            mine = [hidden.grad.clone(), None if frozen else head.grad.clone()]
            hidden.grad = head.grad = None
            expected = (hidden @ head.T / 0.8).log_softmax(-1).gather(1, ids)
            (expected * outer).sum().backward()
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(mine[0], hidden.grad, atol=1e-5, rtol=1e-4)
            if not frozen:
                torch.testing.assert_close(mine[1], head.grad, atol=1e-5, rtol=1e-4)
    finally:
        module.CHUNK = module_chunk


def test_targets_of_an_adapter_are_those_that_were_named(engines):
    engine = engines(adapter=AdapterConfig(rank=2, targets=("q_proj", "v_proj")).model_dump())
    assert {name.split(".lora_")[0].rpartition(".")[2] for name in engine._optimiser.masters} == {"q_proj", "v_proj"}
    mine, everything = engine.parameters
    assert 0 < mine < everything
