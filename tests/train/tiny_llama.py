"""A llama of a few thousand parameters with a tokenizer of its own, and samples for it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from silva.train.sample import Sample

os.environ.update(OMP_WAIT_POLICY="passive", GOMP_SPINCOUNT="0", OMP_NUM_THREADS="1")  # before torch reads them

WORDS = 64


def tokenizer_folder(folder: Path) -> Path:
    """A word-level tokenizer: `w0` … `w63`, the last of them ending a message."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {f"w{number}": number for number in range(WORDS)}
    made = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "w0"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(made), encoding="utf-8")
    said = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": f"w{WORDS - 1}"}
    (folder / "tokenizer_config.json").write_text(json.dumps(said), encoding="utf-8")
    return folder


def pair(generator: np.random.Generator) -> list[Sample]:
    """A chosen and a rejected sample that answer the same context."""
    chosen, rejected = (sample(generator, int(generator.integers(12, 30)), 6) for _ in range(2))
    rejected.ids[:6] = chosen.ids[:6]
    for side in (chosen, rejected):
        side.mask[:] = side.drawn
    return [chosen, rejected]


def group(generator: np.random.Generator, task: str, size: int = 4) -> list[Sample]:
    """Attempts at one task, of which one succeeds."""
    return [sample(generator, task=task, index=index, reward=float(index == 0)) for index in range(size)]


def weights_folder(folder: Path, seed: int = 0, vocabulary: int = WORDS) -> Path:
    """Random weights in Hugging Face form."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        eos_token_id=vocabulary - 1,
        bos_token_id=None,
        initializer_range=0.2,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer_folder(folder)
    return folder


def sample(
    generator: np.random.Generator,
    length: int = 0,
    prompt: int = 0,
    *,
    task: str = "",
    index: int = 0,
    reward: float = 0.0,
) -> Sample:
    """A random sample: a prompt, then ids the policy drew, of which one in five is masked."""
    length = length or int(generator.integers(8, 40))
    prompt = prompt or int(generator.integers(1, length - 3))
    drawn = np.arange(length) >= prompt
    mask = drawn & (generator.random(length) > 0.2)
    mask[-1] = True
    return Sample(
        ids=generator.integers(0, WORDS, length).astype(np.int32),
        mask=mask,
        drawn=drawn,
        logprobs=np.where(drawn, -generator.random(length) * 4, 0).astype(np.float32),
        advantages=np.zeros(length, np.float32),
        weights=np.where(generator.random(length) > 0.5, 1.0, 0.5).astype(np.float32),
        run_id="run",
        task_id=task or f"task-{generator.integers(1 << 30)}",
        trajectory_id=f"trajectory-{generator.integers(1 << 30)}",
        index=index,
        reward=reward,
        versions=("p@1",),
    )
