"""Weights in Hugging Face form: found, checked, loaded; or drawn at random from a shape and a seed.

Only the llama family: the layers this engine trains and Silva's own server computes are the same.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before transformers is imported: nothing may be fetched

import torch
import transformers
from safetensors import SafetensorError

from silva.errors import UsageError
from silva.models.bundled import weights_folder
from silva.models.exact.token_table import table_digest, token_table
from silva.models.local.network import best_dtype
from silva.train.config import BUNDLED, ScratchConfig
from silva.train.engines.attention import NAME
from silva.train.registry.weights import WeightsFolder

TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")
"""Files beside the weights that a server needs to speak with them."""

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


def policy_folder(weights: str) -> Path:
    """The folder of `local` or of a path.

    Raises:
        UsageError: it holds no weights of the llama family.
        MissingError: the bundled model is not installed.
    """
    if weights == BUNDLED:
        return weights_folder()
    folder = Path(weights)
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"weights {weights}: no config.json that can be read; name a folder in Hugging Face form, or {BUNDLED!r}"
        ) from error
    kind = config.get("model_type") if isinstance(config, dict) else None
    if kind != "llama":
        raise UsageError(f"weights {weights}: its model_type is {kind}; the local engine trains the llama family")
    if not any(folder.glob("*.safetensors")):
        raise UsageError(f"weights {weights}: there is no .safetensors file in it")
    return folder


def load_model(folder: Path, dtype: torch.dtype) -> Any:
    """The model of a folder, computing in `dtype`.

    Raises:
        UsageError: the weights cannot be read or do not fit the config.
    """
    try:
        loaded: Any = transformers.LlamaForCausalLM.from_pretrained(
            folder, dtype=dtype, attn_implementation=NAME, local_files_only=True, output_loading_info=True
        )
        model, told = loaded
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UsageError(f"weights {folder.name}: cannot be loaded ({' '.join(str(error).split())[:160]})") from error
    missing = sorted(told["missing_keys"])
    if missing:
        raise UsageError(f"weights {folder.name}: they lack {missing[0]}")
    return model


def random_model(shape: ScratchConfig, dtype: torch.dtype, seed: int) -> Any:
    """A model of that shape with random weights, the same for the same seed. Embedding and head are one matrix.

    Raises:
        UsageError: the tokenizer cannot be read.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(shape.tokenizer, local_files_only=True)
    except (OSError, ValueError) as error:
        raise UsageError(f"tokenizer {shape.tokenizer}: cannot be loaded; name a folder with tokenizer.json") from error
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_heads,
        max_position_embeddings=shape.context,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    config._attn_implementation = NAME
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made: Any = transformers.LlamaForCausalLM(config)
        return made.to(dtype)


def computed_in(name: str, device: torch.device | None = None) -> torch.dtype:
    """The number format of a config's `dtype` on a device (None: the processor)."""
    if name == "auto" and device is not None and device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32
    return {"auto": best_dtype(), "bfloat16": torch.bfloat16, "float32": torch.float32}[name]


def weights_digest(folder: Path) -> str:
    """Which weights a folder has, as the registry tells them apart; reads them whole.

    Raises:
        UsageError: it holds none.
    """
    return WeightsFolder(folder).digest()


def tokenizer_digest(folder: Path) -> str:
    """Which tokens a folder's ids stand for: a digest of the table in `tokenizer.json`, "" where there is none."""
    return table_digest(token_table(folder))
