"""A llama as one GGUF file: its numbers from the Hugging Face folder, its tokenizer carried over from another GGUF.

    config.json ─▶ llama.* keys      safetensors ─▶ tensors under GGUF's names, query and key rows in its rope order
    another GGUF ─▶ tokenizer.* keys, as they are      chat_template.jinja ─▶ tokenizer.chat_template

Carried over, because a tokenizer says more in GGUF than in `tokenizer.json` (kinds of tokens, the pre-tokenizer's
name), and the GGUF of the same model family has it right. GGUF pairs the dimensions of a head for the rotary embedding
next to each other, Hugging Face in halves: rows of query and key are reordered accordingly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from silva.errors import MissingError, UsageError
from silva.models.exact.token_table import differs, token_table
from silva.train.registry.tensors import Dtype, Floats, Tensor, stored, values
from silva.train.registry.weights import CONFIG, WeightsFolder

try:
    import gguf
except ImportError as error:
    raise MissingError("writing GGUF needs the package gguf: pip install 'silva[train]'") from error

_QUANTISATION = {
    "F32": gguf.GGMLQuantizationType.F32,
    "F16": gguf.GGMLQuantizationType.F16,
    "BF16": gguf.GGMLQuantizationType.BF16,
}
_FILE_TYPE = {
    "F32": gguf.LlamaFileType.ALL_F32,
    "F16": gguf.LlamaFileType.MOSTLY_F16,
    "BF16": gguf.LlamaFileType.MOSTLY_BF16,
}
_TOKENS = "tokenizer.ggml.tokens"
_TEMPLATE = "tokenizer.chat_template"


def write_gguf(
    file: Path,
    source: WeightsFolder,
    tensors: Iterable[tuple[str, Tensor]],
    dtype: Dtype,
    like: Path | None,
    name: str,
) -> None:
    """Write a llama as GGUF.

    Args:
        file: to be made.
        source: the Hugging Face folder whose config, chat template and shapes count.
        tensors: its weights under Hugging Face's names, in the order of `source.shapes()`; one at a time is in memory.
        dtype: the number format of matrices; vectors are float32, as llama.cpp wants them.
        like: the GGUF whose tokenizer is carried over; None for the bundled model's.
        name: `general.name`.

    Raises:
        UsageError: the model is no plain llama, or the tokenizer has another number of tokens.
        OSError: it cannot be written.
    """
    config = source.config()
    shape = _Shape(source.path.name, config)
    carried = _tokenizer(like, shape.vocabulary, source.path)
    writer = gguf.GGUFWriter(file, "llama")
    try:
        writer.add_type(gguf.GGUFType.MODEL)
        writer.add_name(name)
        writer.add_file_type(_FILE_TYPE[dtype])
        writer.add_block_count(shape.blocks)
        writer.add_context_length(shape.context)
        writer.add_embedding_length(shape.width)
        writer.add_feed_forward_length(shape.feed_forward)
        writer.add_head_count(shape.heads)
        writer.add_head_count_kv(shape.key_heads)
        writer.add_key_length(shape.head_width)
        writer.add_value_length(shape.head_width)
        writer.add_rope_dimension_count(shape.head_width)
        writer.add_rope_freq_base(shape.rope_base)
        writer.add_layer_norm_rms_eps(shape.epsilon)
        writer.add_vocab_size(shape.vocabulary)
        template = source.path / "chat_template.jinja"
        for field in carried:
            if field.name != _TEMPLATE or not template.is_file():
                _carry(writer, field)
        if template.is_file():
            writer.add_chat_template(template.read_text(encoding="utf-8"))
        names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, shape.blocks)
        for key, sizes in source.shapes().items():
            found = names.get_name(key, try_suffixes=(".weight", ".bias"))
            if found is None:
                raise UsageError(f"{source.path.name}: {key} has no name in a llama GGUF: export it as merged")
            kind = dtype if len(sizes) > 1 else "F32"
            size = math.prod(sizes) * (4 if kind == "F32" else 2)
            writer.add_tensor_info(found, sizes, np.dtype(np.float32), size, raw_dtype=_QUANTISATION[kind])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for key, tensor in tensors:
            writer.write_tensor_data(_array(key, values(tensor), dtype, shape))
    finally:
        writer.close()


class _Shape:
    """The numbers of a llama's config.

    Raises:
        UsageError: it is no llama, or one whose rotary embedding is scaled.
    """

    def __init__(self, name: str, config: dict[str, Any]) -> None:
        if config.get("model_type") != "llama":
            raise UsageError(
                f"{name} is a {config.get('model_type')}: GGUF is written of llamas; export it as merged and use"
                " llama.cpp's converter"
            )
        rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
        if rope.get("rope_type", rope.get("type", "default")) != "default":
            raise UsageError(f"{name}: its rotary embedding is scaled, which is not written: export it as merged")
        try:
            self.width = int(config["hidden_size"])
            self.heads = int(config["num_attention_heads"])
            self.blocks = int(config["num_hidden_layers"])
            self.feed_forward = int(config["intermediate_size"])
            self.vocabulary = int(config["vocab_size"])
            self.epsilon = float(config["rms_norm_eps"])
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{name}/{CONFIG} lacks what a llama's config has: {error}") from error
        self.key_heads = int(config.get("num_key_value_heads") or self.heads)
        self.head_width = int(config.get("head_dim") or self.width // self.heads)
        self.context = int(config.get("max_position_embeddings") or 2048)
        self.rope_base = float(rope.get("rope_theta") or config.get("rope_theta") or 10000.0)


def _array(key: str, array: Floats, dtype: Dtype, shape: _Shape) -> npt.NDArray[Any]:
    """A tensor as GGUF holds it."""
    heads = {"q_proj": shape.heads, "k_proj": shape.key_heads}.get(key.split(".")[-2])
    if heads is not None:  # a bias goes with its rows
        array = array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
    if array.ndim < 2 or dtype == "F32":
        return np.ascontiguousarray(array, np.float32)
    return np.frombuffer(stored(array, dtype).data, np.uint8)


def _tokenizer(like: Path | None, vocabulary: int, folder: Path) -> list[Any]:
    """The fields of a GGUF that say how it tokenises, whose ids must stand for what the folder's stand for."""
    name = folder.name
    if like is None:
        from silva.models.bundled import packed_weights

        like = packed_weights()
    try:
        reader = gguf.GGUFReader(like)
    except (OSError, ValueError) as error:
        raise UsageError(f"{like.name} cannot be read as GGUF: {error}") from error
    fields = [field for key, field in reader.fields.items() if key.startswith("tokenizer.")]
    count = next((len(field.data) for field in fields if field.name == _TOKENS), 0)
    if count != vocabulary:
        raise UsageError(
            f"{like.name} has a tokenizer of {count} tokens, {name} has {vocabulary}: give --like, a GGUF of its family"
        )
    tokens = next(field for field in fields if field.name == _TOKENS)
    problem = differs(dict(enumerate(str(token) for token in tokens.contents())), token_table(folder))
    if problem:
        raise UsageError(
            f"{like.name} has another tokenizer than {name} ({problem}): give --like, a GGUF of its family"
        )
    return fields


def _carry(writer: Any, field: Any) -> None:
    kind = field.types[0]
    inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
    writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)
