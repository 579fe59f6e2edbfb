"""Rows of other trainers: their field names as read from their sources, and every id, mask and logprob carried over."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from played import play

from silva.errors import SilvaError, UsageError
from silva.train.pairs import pairs, parting
from silva.train.sample import Action, Sample, SampleError
from silva.train.sample_file import read_samples, write_samples
from silva.train.samples import SampleReader
from silva.train.writers import FORMATS, Options, prime_rl, slime, trl, verl, write

VERL_AGENT_LOOP_OUTPUT = {
    "prompt_ids", "response_ids", "response_mask", "response_logprobs", "routed_experts", "multi_modal_data",
    "reward_score", "num_turns", "metrics", "extra_fields", "mm_processor_kwargs", "mm_processor_output",
}  # fmt: skip
"""AgentLoopOutput of verl 0.9.1 (verl/experimental/agent_loop/agent_loop.py)."""
SLIME_SAMPLE = {
    "group_index", "index", "rollout_id", "prompt", "tokens", "multimodal_inputs", "multimodal_train_inputs",
    "multimodal_train_input_id", "apply_chat_template_kwargs", "response", "response_length", "label", "reward",
    "loss_mask", "weight_versions", "rollout_log_probs", "rollout_top_p_token_ids", "rollout_top_p_token_offsets",
    "rollout_routed_experts", "remove_sample", "teacher_log_probs", "status", "metadata", "generate_function_path",
    "custom_rm_path", "train_metadata", "session_id", "non_generation_time", "spec_info", "prefix_cache_info",
}  # fmt: skip
"""Sample of slime at commit 624b824a (slime/utils/types.py)."""
PRIME_RL_TRAINING_SAMPLE = (
    "token_ids", "mask", "logprobs", "temperatures", "env_name", "ref_logprobs", "mm_kwargs", "routed_experts",
    "mm_token_type_ids", "rl_weights", "ce_weights", "ref_kl_weights", "advantages",
)  # fmt: skip
PRIME_RL_MICRO_BATCH = (
    "input_ids", "loss_mask", "advantages", "inference_logprobs", "position_ids", "sequence_lengths", "temperatures",
    "env_names", "seq_lens", "ref_logprobs", "routed_experts", "mm_kwargs", "mm_token_type_ids", "rl_weights",
    "ce_weights", "ref_kl_weights",
)  # fmt: skip
"""prime-rl at commit 559b4477 (src/prime_rl/transports/rollouts/types.py), in order."""


def made(seed: int, steps: int = 30) -> list[Sample]:
    played = play(seed, steps=steps)
    reader = SampleReader(played.tree, played.supervisions)
    return [sample for each in played.trajectories for sample in reader.samples(each)]


SAMPLES = made(21) + made(22)


def simple(ids: list[int], drawn: list[int], **fields: Any) -> Sample:
    flags = np.zeros(len(ids), bool)
    flags[drawn] = True
    n = len(ids)
    given: dict[str, Any] = {"run_id": "r", "task_id": "t", "trajectory_id": "x", "reward": 0.5, **fields}
    return Sample(
        ids=np.array(ids, np.int32),
        mask=flags,
        drawn=flags.copy(),
        logprobs=np.where(flags, -0.5, 0).astype(np.float32),
        advantages=np.zeros(n, np.float32),
        weights=np.ones(n, np.float32),
        **given,
    )


def whole(prompt: list[int], response: list[int], sample: Sample) -> bool:
    stop = sample.actions[-1].stop
    return prompt + response == sample.ids[:stop].tolist() and len(prompt) == sample.actions[0].start


def test_trl_sft_labels_are_the_ids_with_loss() -> None:
    for sample in SAMPLES:
        row = trl.sft_row(sample)
        assert row["input_ids"] == sample.ids.tolist()
        assert [label != -100 for label in row["labels"]] == sample.mask.tolist()
        assert all(label in (-100, number) for label, number in zip(row["labels"], row["input_ids"], strict=True))
    assert trl.sft_row(simple([1, 2, 3], [1, 2]))["labels"] == [-100, 2, 3]


def test_trl_rollouts_have_the_columns_a_rollout_func_returns() -> None:
    columns = trl.rollout(SAMPLES)
    assert set(columns) == {"prompt_ids", "completion_ids", "logprobs", "env_mask", "reward"}
    for row in zip(*columns.values(), strict=True):
        prompt, completion, logprobs, mask, _ = row
        assert len(completion) == len(logprobs) == len(mask) and prompt and completion
    assert all(map(whole, columns["prompt_ids"], columns["completion_ids"], SAMPLES))


def test_verl_rows_have_the_fields_of_an_agent_loop_output() -> None:
    for sample in SAMPLES:
        row = verl.agent_loop_output(sample)
        assert set(row) <= VERL_AGENT_LOOP_OUTPUT
        assert whole(row["prompt_ids"], row["response_ids"], sample) and row["num_turns"] > 1
        assert sum(row["response_mask"]) == int(sample.mask.sum()) and row["reward_score"] == sample.reward
        drawn = sample.drawn[sample.actions[0].start : sample.actions[-1].stop]
        assert all((value < 0) == was for value, was in zip(row["response_logprobs"], drawn, strict=True))


def test_slime_samples_have_its_fields_and_a_trajectorys_parts_share_a_rollout() -> None:
    rows = slime.sample_dicts(SAMPLES)
    for row, sample in zip(rows, SAMPLES, strict=True):
        assert set(row) <= SLIME_SAMPLE
        response = row["tokens"][len(row["tokens"]) - row["response_length"] :]
        assert len(response) == len(row["loss_mask"]) == len(row["rollout_log_probs"]) == row["response_length"]
        assert whole(row["tokens"][: -row["response_length"]], response, sample)
    assert [row["index"] for row in rows] == list(range(len(rows)))
    by_trajectory = {(row["rollout_id"], sample.trajectory_id) for row, sample in zip(rows, SAMPLES, strict=True)}
    assert len(by_trajectory) == len({sample.trajectory_id for sample in SAMPLES}) < len(SAMPLES)
    assert {row["group_index"] for row in rows} == {0, 1}


def test_prime_rl_structs_have_its_fields_in_its_order() -> None:
    assert prime_rl.TrainingSample.__struct_fields__ == PRIME_RL_TRAINING_SAMPLE
    assert prime_rl.MicroBatch.__struct_fields__ == PRIME_RL_MICRO_BATCH


def test_prime_rl_batches_are_packed_arrays_of_equal_length(tmp_path: Path) -> None:
    scored = [replace(sample, advantages=sample.mask.astype(np.float32)) for sample in SAMPLES]
    rows = write("prime-rl", tmp_path / "rank_0.bin", scored, Options(budget=64))
    read = msgspec.msgpack.decode((tmp_path / "rank_0.bin").read_bytes())
    assert len(read) == rows < len(scored)
    assert sum(len(batch[0]) for batch in read) == sum(map(len, scored))
    for batch in read:
        named = dict(zip(PRIME_RL_MICRO_BATCH, batch, strict=True))
        arrays = ("loss_mask", "advantages", "inference_logprobs", "position_ids", "temperatures", "env_names")
        assert {len(named[name]) for name in (*arrays, "rl_weights")} == {len(named["input_ids"])}
        assert sum(named["seq_lens"]) == len(named["input_ids"]) <= 64 and named["ce_weights"] is None
        assert named["position_ids"] == [place for length in named["seq_lens"] for place in range(length)]
    imitation = prime_rl.micro_batches(SAMPLES, 64, Options(objective="ce"))
    assert all(not any(batch.rl_weights or [1]) and sum(batch.ce_weights or []) >= 0 for batch in imitation)
    assert sum(sum(batch.ce_weights or []) for batch in imitation) == sum(int(each.mask.sum()) for each in SAMPLES)


def test_a_slime_file_is_torchs_and_loads_without_torch(tmp_path: Path) -> None:
    path = tmp_path / "0.pt"
    assert write("slime", path, SAMPLES) == len(SAMPLES)
    with zipfile.ZipFile(path) as file:
        loaded = pickle.load(io.BytesIO(file.read("archive/data.pkl")))
    assert loaded == {"rollout_id": 0, "samples": slime.sample_dicts(SAMPLES)}
    again = tmp_path / "1.pt"
    write("slime", again, SAMPLES)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", ["trl-sft", "trl-grpo", "verl"])
def test_parquet_and_json_lines_hold_the_same_rows(name: str, tmp_path: Path) -> None:
    write(name, tmp_path / "rows.jsonl", SAMPLES)
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    write(name, tmp_path / "rows.parquet", SAMPLES)
    rows = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    assert len(rows) == len(lines) == len(SAMPLES)
    for row, line in zip(rows, lines, strict=True):
        assert set(row) == set(line)
        assert all(row[key] == line[key] or np.allclose(row[key], line[key]) for key in row)


def test_pairs_part_at_one_action_behind_one_context() -> None:
    better = simple([1, 2, 3, 9, 4], [2, 4], reward=1.0, index=0)
    worse = simple([1, 2, 5, 6, 9, 4], [2, 3, 5], reward=0.0, index=1)
    middle = simple([1, 2, 3, 9, 7], [2, 4], reward=0.4, index=2)
    assert trl.dpo_row(pairs([worse, better])[0]) == {
        "prompt_ids": [1, 2],
        "chosen_ids": [3],
        "rejected_ids": [5, 6],
        "task_id": "t",
    }
    later = parting(better, middle)
    assert later is not None and trl.dpo_row(later)["prompt_ids"] == [1, 2, 3, 9]
    assert [pair.rejected.index for pair in pairs([middle, worse, better])] == [1]
    assert pairs([better, replace(worse, reward=0.9)], margin=0.2) == []
    assert pairs([better, replace(worse, task_id="other")]) == []
    assert parting(better, better) is None


def test_tries_in_several_segments_are_paired_as_tries() -> None:
    better, worse = (
        [
            simple([1, 2, answer], [2], reward=reward, index=index, trajectory_id=name),
            simple([8, answer, 4], [2], reward=reward, index=index, trajectory_id=name, segment=1),
        ]
        for name, index, reward, answer in (("a", 0, 1.0, 3), ("b", 1, 0.0, 5))
    )
    (pair,) = pairs([*better, *worse])
    assert trl.dpo_row(pair) == {"prompt_ids": [1, 2], "chosen_ids": [3], "rejected_ids": [5], "task_id": "t"}
    behind = [
        replace(worse[0], segment=1),
        replace(worse[1], segment=0),
    ]  # after a summary the last segment comes first
    (again,) = pairs([*better, *behind[::-1]])
    assert again.rejected is behind[0]
    assert len(pairs([replace(each, trajectory_id="") for each in (better[0], worse[0])])) == 1


def test_pairs_that_part_in_what_was_said_or_masked_are_none() -> None:
    better = simple([1, 2, 3, 9, 4], [2, 4])
    assert parting(better, simple([1, 2, 3, 8, 4], [2, 4])) is None  # the environment answered otherwise
    assert parting(better, simple([1, 7, 3, 9, 4], [2, 4])) is None  # another prompt
    off = simple([1, 2, 5, 9, 4], [2, 4])
    assert parting(better, replace(off, mask=np.zeros(5, bool))) is None
    longer = simple([1, 2, 3, 3, 9], [2, 3])
    pair = parting(better, longer)
    assert pair is not None and trl.dpo_row(pair)["rejected_ids"] == [3, 3]
    with pytest.raises(SampleError, match="has no reward"):
        pairs([replace(better, reward=float("nan"))])


UNKNOWN = replace(SAMPLES[0], logprobs=np.where(SAMPLES[0].drawn, np.nan, 0).astype(np.float32))
HALF = replace(SAMPLES[0], weights=np.full(len(SAMPLES[0]), 0.5, np.float32), mask=SAMPLES[0].drawn)
SCORED = replace(SAMPLES[0], advantages=np.ones(len(SAMPLES[0]), np.float32))


@pytest.mark.parametrize(
    ("name", "sample", "options", "why"),
    [
        ("trl-grpo", UNKNOWN, Options(), "without log-probabilities, which TRL"),
        ("prime-rl", replace(UNKNOWN, advantages=SCORED.advantages), Options(budget=99), "without log-probabilities"),
        ("trl-sft", HALF, Options(), "weights other than 0 and 1"),
        ("verl", HALF, Options(), "weights other than 0 and 1"),
        ("slime", simple([1, 2], []), Options(), "the policy drew nothing"),
        ("verl", simple([1, 2], [0]), Options(), "nothing stands before"),
        ("prime-rl", SAMPLES[0], Options(), "give --budget"),
        ("prime-rl", SAMPLES[0], Options(budget=99), "have no advantages"),
        ("prime-rl", SCORED, Options(budget=2), "a batch holds 1 to 2"),
        ("trl-dpo", SAMPLES[0], Options(), "hold no pair"),
        ("tinker", SAMPLES[0], Options(), "unknown format"),
    ],
)
def test_what_a_form_cannot_say_is_refused_and_no_file_is_left(
    name: str, sample: Sample, options: Options, why: str, tmp_path: Path
) -> None:
    ending = FORMATS[name].endings[0] if name in FORMATS else ".x"
    with pytest.raises(SilvaError, match=why):
        write(name, tmp_path / f"out{ending}", [sample], options)
    assert list(tmp_path.iterdir()) == []


def test_verl_and_imitation_take_samples_without_logprobs(tmp_path: Path) -> None:
    assert verl.agent_loop_output(UNKNOWN)["response_logprobs"] is None
    assert slime.sample_dicts([UNKNOWN])[0]["rollout_log_probs"] is None
    batches = prime_rl.micro_batches([UNKNOWN], 99, Options(objective="ce"))
    assert not any(batches[0].inference_logprobs)
    assert write("verl", tmp_path / "a.parquet", [UNKNOWN]) == 1
    assert pq.read_table(tmp_path / "a.parquet")["response_logprobs"].to_pylist() == [None]


def test_weights_of_zero_are_a_mask_to_trainers_that_know_no_weights() -> None:
    sample = simple([1, 2, 3], [1, 2], actions=(Action(node_id="n", start=1, stop=3),))
    off = replace(sample, weights=np.array([1, 0, 1], np.float32))
    assert trl.sft_row(off)["labels"] == [-100, -100, 3] and verl.agent_loop_output(off)["response_mask"] == [0, 1]


def test_a_file_is_not_replaced_unasked_and_an_ending_has_to_fit(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    write("trl-sft", path, SAMPLES)
    before = path.read_bytes()
    with pytest.raises(UsageError, match="is there already"):
        write("trl-sft", path, SAMPLES[:1])
    assert path.read_bytes() == before
    assert write("trl-sft", path, SAMPLES[:1], Options(force=True)) == 1
    with pytest.raises(UsageError, match=r"ends in \.pt"):
        write("slime", path, SAMPLES)
    with pytest.raises(UsageError, match="cannot be written"):
        write("trl-sft", tmp_path / "no" / "rows.parquet", SAMPLES)
    assert [each.name for each in tmp_path.iterdir()] == ["rows.parquet"]


def test_a_file_of_samples_gives_them_back_and_says_where_it_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.samples"
    assert write_samples(path, SAMPLES) == len(SAMPLES)
    assert list(read_samples(path)) == SAMPLES
    data = path.read_bytes()
    for cut in (len(data) - 1, len(data) - 9, 30, 8):
        path.write_bytes(data[:cut])
        with pytest.raises(SampleError, match=r"a\.samples: sample \d+ is cut short or damaged"):
            list(read_samples(path))
    path.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    with pytest.raises(SampleError, match="sample 0 is cut short or damaged"):
        list(read_samples(path))
    path.write_bytes(b"{}")
    with pytest.raises(SampleError, match="not a file of samples"):
        list(read_samples(path))
    with pytest.raises(SampleError, match="cannot be read"):
        list(read_samples(tmp_path / "none.samples"))


@pytest.mark.slow
def test_torch_loads_a_slime_file(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    write("slime", tmp_path / "0.pt", SAMPLES)
    for only in (False, True):
        loaded = torch.load(tmp_path / "0.pt", weights_only=only)
        assert loaded["samples"] == slime.sample_dicts(SAMPLES)


@pytest.mark.slow
def test_trls_own_collators_take_the_rows(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    from datasets import load_dataset
    from trl.trainer.dpo_trainer import DataCollatorForPreference
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    write("trl-sft", tmp_path / "sft.parquet", SAMPLES)
    rows = load_dataset("parquet", data_files=str(tmp_path / "sft.parquet"), cache_dir=str(tmp_path))["train"]
    batch = DataCollatorForLanguageModeling(pad_token_id=0)([rows[number] for number in range(len(rows))])
    for sample, ids, labels in zip(SAMPLES, batch["input_ids"], batch["labels"], strict=True):
        n = len(sample)
        assert ids[:n].tolist() == sample.ids.tolist()
        assert (labels[:n] != -100).tolist() == sample.mask.tolist() and (labels[n:] == -100).all()
    pair = [simple([1, 2, 3, 9, 4], [2, 4], reward=1.0), simple([1, 2, 5, 6, 9, 4], [2, 3, 5], reward=0.0, index=1)]
    write("trl-dpo", tmp_path / "dpo.parquet", pair)
    rows = load_dataset("parquet", data_files=str(tmp_path / "dpo.parquet"), cache_dir=str(tmp_path))["train"]
    both = DataCollatorForPreference(pad_token_id=0)([rows[0]])
    assert both["input_ids"].tolist() == [[1, 2, 3, 0], [1, 2, 5, 6]]
    assert both["completion_mask"].tolist() == [[0, 0, 1, 0], [0, 0, 1, 1]]


@pytest.mark.slow
def test_trls_trainers_train_on_the_files(tmp_path: Path) -> None:
    """SFT and DPO take a step on the ids as they are; the loss of SFT is that of the ids with loss alone."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("trl")
    from datasets import load_dataset
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

    class Ready(DPOTrainer):
        def _prepare_dataset(self, dataset: Any, *_: Any) -> Any:
            return dataset

    words = {**{str(number): number for number in range(14)}, "<pad>": 14, "<eos>": 15}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, unk_token="0")), pad_token="<pad>", eos_token="<eos>"
    )
    torch.manual_seed(0)
    shape = LlamaConfig(
        vocab_size=16, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, pad_token_id=14
    )
    model = LlamaForCausalLM(shape)
    every = {"output_dir": str(tmp_path), "max_steps": 1, "report_to": "none", "use_cpu": True, "bf16": False}
    write("trl-sft", tmp_path / "sft.parquet", SAMPLES[:4])
    rows = load_dataset("parquet", data_files=str(tmp_path / "sft.parquet"), cache_dir=str(tmp_path))["train"]
    with torch.no_grad():
        total, count = 0.0, 0
        for sample in SAMPLES[:4]:
            ids = torch.from_numpy(sample.ids.astype(np.int64))
            logprobs = model(ids[None]).logits[0].log_softmax(-1)[:-1].gather(1, ids[1:, None])[:, 0]
            total -= float(logprobs[torch.from_numpy(sample.mask[1:])].sum())
            count += int(sample.mask[1:].sum())
    config = SFTConfig(
        **every, per_device_train_batch_size=4, dataset_kwargs={"skip_prepare_dataset": True}, max_length=None
    )
    done = SFTTrainer(model, config, train_dataset=rows, processing_class=tokenizer).train()
    assert done.training_loss == pytest.approx(total / count, rel=1e-4)
    pair = [simple([1, 2, 3, 9, 4], [2, 4], reward=1.0), simple([1, 2, 5, 6, 9, 4], [2, 3, 5], reward=0.0, index=1)]
    write("trl-dpo", tmp_path / "dpo.parquet", pair)
    rows = load_dataset("parquet", data_files=str(tmp_path / "dpo.parquet"), cache_dir=str(tmp_path))["train"]
    LlamaForCausalLM(shape).save_pretrained(tmp_path / "model")
    config = DPOConfig(**every, per_device_train_batch_size=1, max_length=None)
    done = Ready(str(tmp_path / "model"), args=config, train_dataset=rows, processing_class=tokenizer).train()
    assert done.training_loss == pytest.approx(float(np.log(2)), abs=1e-3)
