"""A llama network in plain torch with a cache of ragged rows: row i holds `lengths[i]` tokens, right-padded.

Grouped attention without copying: the query heads that share a key head are laid out as so many queries of that head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as functional
from torch import Tensor

from silva.models.local.adapted import Adapter
from silva.models.local.checkpoint import frequencies, read_architecture, read_weights
from silva.models.local.deltas import Deltas

GROWTH = 256
"""The cache's length grows in such steps, so that it is not laid out anew at every token."""


Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""Attention of one layer: layer, query, key and value, each [rows, tokens, heads, size], to [rows, tokens, width]."""


Past = Sequence[tuple[Tensor, Tensor]]
"""Keys and values of each layer, of ids that stand before what is read."""


class Cache:
    """Keys and values, each [layers, rows, key heads, length, head size]; grows as needed.

    `most` bounds rows x length: room kept from earlier is given up before the bound is passed.
    """

    def __init__(self, layers: int, heads: int, size: int, dtype: torch.dtype, most: int) -> None:
        self._shape = (layers, heads, size)
        self._most = most
        self._dtype = dtype
        self.keys = torch.empty(layers, 0, heads, 0, size, dtype=dtype)
        self.values = torch.empty_like(self.keys)

    def reserve(self, rows: int, length: int) -> None:
        """Make room for that many rows of that length, keeping what lies within them."""
        have_rows, have_length = self.keys.shape[1], self.keys.shape[3]
        if rows <= have_rows and length <= have_length:
            return
        ample = (max(rows, have_rows, min(2 * have_rows, 32)), max(-(-length // GROWTH) * GROWTH, have_length))
        if ample[0] * ample[1] <= self._most:
            rows, length = ample
        self.keys, self.values = self._larger(self.keys, rows, length), self._larger(self.values, rows, length)

    def _larger(self, old: Tensor, rows: int, length: int) -> Tensor:
        layers, heads, size = self._shape
        new = torch.zeros(layers, rows, heads, length, size, dtype=self._dtype)
        kept_rows, kept_length = min(rows, old.shape[1]), min(length, old.shape[3])
        new[:, :kept_rows, :, :kept_length] = old[:, :kept_rows, :, :kept_length]
        return new

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` tokens of one row over another."""
        self.keys[:, target, :, :length] = self.keys[:, source, :, :length]
        self.values[:, target, :, :length] = self.values[:, source, :, :length]

    def take(self, row: int, length: int) -> tuple[Tensor, Tensor]:
        """A copy of the first `length` tokens of a row."""
        return self.keys[:, row, :, :length].clone(), self.values[:, row, :, :length].clone()

    def put(self, row: int, taken: tuple[Tensor, Tensor], length: int) -> None:
        """Write the first `length` tokens of what `take` gave into a row."""
        self.keys[:, row, :, :length] = taken[0][:, :, :length]
        self.values[:, row, :, :length] = taken[1][:, :, :length]

    def release(self) -> None:
        """Give the memory back; for when no row is in use."""
        self.__init__(*self._shape, self._dtype, self._most)


class _Layer:
    def __init__(self, weights: dict[str, Tensor], prefix: str) -> None:
        def get(name: str) -> Tensor:
            return weights[f"{prefix}.{name}.weight"]

        self.norm_in, self.norm_mid = get("input_layernorm"), get("post_attention_layernorm")
        self.qkv = torch.cat([get(f"self_attn.{name}_proj") for name in "qkv"]).contiguous()
        self.out = get("self_attn.o_proj").contiguous()
        self.gate_up = torch.cat([get("mlp.gate_proj"), get("mlp.up_proj")]).contiguous()
        self.down = get("mlp.down_proj").contiguous()


class Network:
    """The weights of a folder in Hugging Face form, computed in `dtype`.

    `context` is the most tokens a row may hold, `ends` the ids that end a message, `vocabulary` how many ids there are.
    `shapes` gives each projection's width in and out, `depth` the number of layers.

    Raises:
        UsageError: the folder holds no llama that can be computed here; see `silva.models.local.checkpoint`.
    """

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        shape = read_architecture(folder)
        weights = {name: value.to(dtype) for name, value in read_weights(folder, shape).items()}
        self.name = shape.name
        self.context, self.ends = shape.context, shape.ends
        self._heads, self._key_heads, self._size = shape.heads, shape.key_heads, shape.size
        self._epsilon = shape.epsilon
        self._embedding = weights["model.embed_tokens.weight"]
        self._unembedding = weights.get("lm_head.weight", self._embedding)
        self._norm = weights["model.norm.weight"]
        self._layers = [_Layer(weights, f"model.layers.{i}") for i in range(shape.depth)]
        self.dtype = dtype
        self.depth = len(self._layers)
        self.vocabulary = len(self._embedding)
        width, inner = self._embedding.shape[1], self._layers[0].down.shape[1]
        query, key = self._heads * self._size, self._key_heads * self._size
        self.shapes = {"q": (width, query), "k": (width, key), "v": (width, key), "o": (query, width)}
        self.shapes |= {"gate": (width, inner), "up": (width, inner), "down": (inner, width)}
        self._cosine, self._sine = self._rotations(*frequencies(shape))

    def cache(self, most: int) -> Cache:
        """An empty cache for this network; `most` bounds its rows x length."""
        return Cache(self.depth, self._key_heads, self._size, self.dtype, most)

    @property
    def token_bytes(self) -> int:
        """Memory one token takes in the cache."""
        return 2 * self.depth * self._key_heads * self._size * self.dtype.itemsize

    def _rotations(self, frequency: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        angles = torch.outer(torch.arange(self.context, dtype=torch.float32), frequency)
        angles = torch.cat([angles, angles], dim=-1)
        return (angles.cos() * scale).to(self.dtype), (angles.sin() * scale).to(self.dtype)

    @torch.inference_mode()
    def prefill(
        self,
        cache: Cache,
        first: int,
        chunks: Sequence[Sequence[int]],
        starts: Sequence[int],
        adapters: Sequence[Adapter | None] = (),
    ) -> Tensor:
        """Read a chunk of ids into each of the rows from `first` on, which hold `starts` tokens already; returns the
        logits behind each chunk's last, [chunks, vocabulary]. `adapters` are those of the rows; left out, all are of
        the plain weights. Rows are computed as long as the longest chunk."""
        rows, count = len(chunks), max(map(len, chunks))
        total = max(start + len(chunk) for chunk, start in zip(chunks, starts, strict=True))
        group = self._heads // self._key_heads
        ids = torch.zeros(rows, count, dtype=torch.long)
        for number, chunk in enumerate(chunks):
            ids[number, : len(chunk)] = torch.tensor(chunk)
        positions = torch.tensor(starts)[:, None] + torch.arange(count)
        mask = _bias(torch.arange(total) <= positions[:, :, None], self.dtype).repeat(1, group, 1)[:, None]
        own = torch.arange(count) < torch.tensor([len(chunk) for chunk in chunks])[:, None]
        numbers, places = torch.arange(first, first + rows)[:, None].expand(rows, count)[own], positions[own]

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            cache.keys[layer, numbers, :, places] = key[own]
            cache.values[layer, numbers, :, places] = value[own]
            grouped = query.view(rows, count, self._key_heads, group, self._size).permute(0, 2, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(
                grouped.reshape(rows, self._key_heads, group * count, self._size),
                cache.keys[layer, first : first + rows, :, :total],
                cache.values[layer, first : first + rows, :, :total],
                attn_mask=mask,
            )
            mixed = mixed.view(rows, self._key_heads, group, count, self._size).permute(0, 3, 1, 2, 4)
            return mixed.reshape(rows, count, self._heads * self._size)

        # a shorter chunk's filling may lie behind the context
        hidden = self._run(ids, positions.clamp(max=self.context - 1), attend, Deltas(adapters))
        return self._logits(hidden[torch.arange(rows), torch.tensor([len(chunk) - 1 for chunk in chunks])])

    @torch.inference_mode()
    def step(self, cache: Cache, ids: list[int], lengths: list[int], adapters: Sequence[Adapter | None] = ()) -> Tensor:
        """Read one id into each of the first rows, which hold `lengths` tokens; returns logits [rows, vocabulary].

        `adapters` are those of the rows; left out, all rows are of the plain weights.
        """
        rows = len(ids)
        total = max(lengths) + 1
        places = torch.tensor(lengths)
        numbers = torch.arange(rows)
        mask = _bias(torch.arange(total) <= places[:, None], self.dtype)[:, None, None]
        group = self._heads // self._key_heads

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            cache.keys[layer, numbers, :, places] = key[:, 0]
            cache.values[layer, numbers, :, places] = value[:, 0]
            mixed = functional.scaled_dot_product_attention(
                query.view(rows, self._key_heads, group, self._size),
                cache.keys[layer, :rows, :, :total],
                cache.values[layer, :rows, :, :total],
                attn_mask=mask,
            )
            return mixed.reshape(rows, 1, self._heads * self._size)

        hidden = self._run(torch.tensor(ids)[:, None], places[:, None], attend, Deltas(adapters))
        return self._logits(hidden[:, 0])

    @torch.inference_mode()
    def read(self, rows: Sequence[Sequence[int]], past: Past = ()) -> Tensor:
        """What the last layer says behind each id of rows that are read whole: [rows, longest, width]. `past` is what
        `remember` gave of ids that stand before every row. What stands behind a row's own end is filling."""
        return self._whole(rows, past)[0]

    @torch.inference_mode()
    def remember(self, ids: Sequence[int]) -> Past:
        """Keys and values of ids that are to stand before many rows: of each layer, [1, heads, ids, size]."""
        return self._whole([ids], ())[1]

    def _whole(self, rows: Sequence[Sequence[int]], past: Past) -> tuple[Tensor, Past]:
        longest, before = max(map(len, rows)), past[0][0].shape[2] if past else 0
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = torch.tensor(row)
        places = torch.arange(before, before + longest)
        mask = _bias(torch.arange(before + longest) <= places[:, None], self.dtype) if past else None
        kept: list[tuple[Tensor, Tensor]] = []

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            key, value = key.transpose(1, 2), value.transpose(1, 2)
            if past:
                key, value = (
                    torch.cat([old.expand(len(rows), -1, -1, -1), new], 2)
                    for old, new in zip(past[layer], (key, value), strict=True)
                )
            else:
                kept.append((key, value))
            mixed = functional.scaled_dot_product_attention(
                query.transpose(1, 2), key, value, attn_mask=mask, is_causal=mask is None, enable_gqa=True
            )
            return mixed.transpose(1, 2).reshape(len(rows), longest, self._heads * self._size)

        return self._run(ids, places.expand(len(rows), -1), attend, Deltas(())), kept

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """The logits of what `read` gave at some places: [places, width] to [places, vocabulary]."""
        return self._logits(hidden)

    @torch.inference_mode()
    def hidden(self, ids: Sequence[int]) -> Tensor:
        """What the last layer says at each id of one text, normed, [tokens, width]: by `unembedding` it is logits."""
        return self._normed(self.read([ids])[0], self._norm)

    @property
    def unembedding(self) -> Tensor:
        """What turns the last layer's normed words into logits, [vocabulary, width]."""
        return self._unembedding

    def _run(self, ids: Tensor, positions: Tensor, attend: Attend, deltas: Deltas) -> Tensor:
        shape = (*ids.shape, -1, self._size)
        cosine, sine = self._cosine[positions][:, :, None], self._sine[positions][:, :, None]
        width, key_width = self._heads * self._size, self._key_heads * self._size
        hidden = functional.embedding(ids, self._embedding)
        for index, layer in enumerate(self._layers):
            normed = self._normed(hidden, layer.norm_in)
            query, key, value = deltas.add(functional.linear(normed, layer.qkv), normed, index, "qkv").split(
                (width, key_width, key_width), dim=-1
            )
            query, key = _rotated(query.view(shape), cosine, sine), _rotated(key.view(shape), cosine, sine)
            mixed = attend(index, query.contiguous(), key, value.view(shape))
            hidden = hidden + deltas.add(functional.linear(mixed, layer.out), mixed, index, "out")
            normed = self._normed(hidden, layer.norm_mid)
            gate_up = deltas.add(functional.linear(normed, layer.gate_up), normed, index, "gate_up")
            gate, up = gate_up.chunk(2, dim=-1)
            inner = functional.silu(gate) * up
            hidden = hidden + deltas.add(functional.linear(inner, layer.down), inner, index, "down")
        return hidden

    def _normed(self, hidden: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(hidden, (hidden.shape[-1],), weight, self._epsilon)

    def _logits(self, hidden: Tensor) -> Tensor:
        return functional.linear(self._normed(hidden, self._norm), self._unembedding).float()


def _bias(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """What is added before the softmax: made once here, where attention would make it of `allowed` in every layer."""
    return torch.zeros(allowed.shape, dtype=dtype).masked_fill_(~allowed, -torch.inf)


def _rotated(value: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    half = value.shape[-1] // 2
    turned = torch.cat([-value[..., half:], value[..., :half]], dim=-1)
    return value * cosine + turned * sine


def best_dtype() -> torch.dtype:
    """bfloat16 where the processor multiplies it, else float32: emulated bfloat16 is several times slower."""
    return torch.bfloat16 if torch.cpu._is_avx512_bf16_supported() else torch.float32
