"""What a server of ids may say that does not agree with itself."""

from __future__ import annotations

from typing import Any

from exact_server import Spoil


def edit(**fields: Any) -> Spoil:
    """Changes fields of a vLLM reply: of its choice, or `usage`."""

    def change(body: dict[str, Any]) -> dict[str, Any]:
        for key, value in fields.items():
            (body if key in body else body["choices"][0])[key] = value
        return body

    return change


def edit_meta(**fields: Any) -> Spoil:
    """Changes fields of an SGLang reply or of its `meta_info`."""

    def change(body: dict[str, Any]) -> dict[str, Any]:
        for key, value in fields.items():
            (body if key in body else body["meta_info"])[key] = value
        return body

    return change


GARBAGE = [
    ("vllm", edit(prompt_token_ids=[1, 2]), "another prompt than was sent"),
    ("vllm", edit(token_ids=None), "counts 4 sampled tokens, but gave 0 ids"),
    ("vllm", edit(token_ids=None, usage=None), "no sampled ids"),
    ("vllm", edit(token_ids=[1, 2]), "counts 4 sampled tokens, but gave 2 ids"),
    ("vllm", edit(usage={"prompt_tokens": 3}), "counts 3 prompt tokens"),
    ("vllm", edit(logprobs=None), "4 ids but 0 logprobs"),
    ("vllm", edit(logprobs={"token_logprobs": [-1.0]}), "4 ids but 1 logprobs"),
    ("vllm", edit(logprobs={"token_logprobs": [-1.0, None, -1.0, -1.0]}), "missing, not finite or above zero"),
    ("vllm", edit(logprobs={"token_logprobs": [-1.0, 0.5, -1.0, -1.0]}), "missing, not finite or above zero"),
    ("vllm", edit(token_ids="abc"), "not understood"),
    ("sglang", edit_meta(prompt_token_ids=[1, 2]), "another prompt than was sent"),
    ("sglang", edit_meta(output_ids=[1, 2]), "a piece gives 2 ids after 0, but counts 4 tokens"),
    ("sglang", edit_meta(output_token_logprobs=[[-1.0, n, None] for n in (5, 6, 7, 8)]), "of other ids than it gave"),
    ("sglang", edit_meta(prompt_tokens=1), "counts 1 prompt tokens"),
    ("sglang", edit_meta(output_ids=[], output_token_logprobs=[]), "counts 4 sampled tokens, but gave 0 ids"),
]


def each_id(spoil: Spoil) -> Spoil:
    """Spoils the pieces of a vLLM stream that have an id."""
    return lambda body: spoil(body) if body["choices"][0]["token_ids"] else body


GARBAGE_IN_PIECES = [
    ("vllm", edit(prompt_token_ids=[1, 2]), "another prompt than was sent"),
    ("vllm", each_id(edit(token_ids=None)), "counts 4 sampled tokens, but gave 0 ids"),
    ("vllm", each_id(edit(token_ids=None, usage=None)), "counts 4 sampled tokens, but gave 0 ids"),
    ("vllm", edit(token_ids=None, usage=None), "no sampled ids"),
    ("vllm", each_id(edit(token_ids=[1, 2])), "counts 4 sampled tokens, but gave 8 ids"),
    ("vllm", edit(usage={"prompt_tokens": 3}), "counts 3 prompt tokens"),
    ("vllm", each_id(edit(logprobs=None)), "4 ids but 0 logprobs"),
    ("vllm", edit(logprobs={"token_logprobs": [-1.0]}), "4 ids but 5 logprobs"),
    ("vllm", each_id(edit(logprobs={"token_logprobs": [None]})), "missing, not finite or above zero"),
    ("vllm", each_id(edit(logprobs={"token_logprobs": [0.5]})), "missing, not finite or above zero"),
    ("vllm", edit(token_ids="abc"), "not understood"),
    ("sglang", edit_meta(prompt_token_ids=[1, 2]), "another prompt than was sent"),
    ("sglang", edit_meta(output_ids=[1, 2]), "a piece gives 2 ids after 0, but counts 1 tokens"),
    ("sglang", edit_meta(output_token_logprobs=[[-1.0, 5, None]]), "of other ids than it gave"),
    ("sglang", edit_meta(output_token_logprobs=[[-1.0, 5, None]] * 2), "a piece gives 2 logprobs after 0"),
    ("sglang", edit_meta(prompt_tokens=1), "counts 1 prompt tokens"),
    ("sglang", edit_meta(output_ids=[], output_token_logprobs=[]), "counts 4 sampled tokens, but gave 0 ids"),
]
