"""The local model: SmolLM2-135M-Instruct, which is bundled, or any folder with a llama in it, on the CPU, batched,
behind the same HTTP routes as any other.

    request ─▶ prompt (chat template, tools as text) ─▶ ids ─▶ Engine: joins the batch between two steps
                                                               │ Network: one step for all rows, ragged lengths
    reply  ◀─ text, tool calls, ids, logprobs ◀── Job ◀────────┘ Sampler: one id per row, by the row's own seed

`/v1/completions` leaves the template out: ids in, ids out. Which weights answer is a Version: the plain ones or a LoRA
adapter, several of them in one batch; adapters come and go while the server answers.

Torch is imported only in the modules that compute, and only in the server's process (`python -m silva.models.local`).
"""

from silva.models.bundled import MODEL as MODEL

PLAIN = "base"
"""Names the weights without any adapter, whatever requests for the model's own name get."""

ROWS = 32
"""Requests computed at once, unless more is said."""

BASE_DIGEST = "base_digest"
"""Names, in the metadata of an adapter's weights, the digest of the base's that Silva's trainers write there."""
