"""How likely weights hold a text: the log-probability of each token of a continuation behind a prompt.

    (prompt ids, continuation ids), … ─▶ rows of about one length together ─▶ Network.read ─▶ nats a token

One pass a row, no sampling, float32. The prediction of a row's first id needs an id before it, so a prompt is never
empty: behind no words at all stands the tokenizer's mark of a beginning (`start`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from silva.models.bundled import require, weights_folder
from silva.models.exact.folder import read_folder
from silva.models.local.network import Network, Past
from silva.models.local.prompt import Prompter
from silva.tree import Message

TOKENS = 2048
"""Ids of one pass, filling included: what keeps the memory of a pass to some hundred megabytes."""

LEAST_SHARED = 8
"""Fewer ids that all prompts begin with are read with each."""

PLACES = 256
"""Places whose logits are held at once; those of one place are as wide as the vocabulary."""


class Likelihood:
    """Weights that say how likely a text is.

    Args:
        folder: a model folder of a llama; None for the bundled model.
        threads: of the processor; None leaves torch's own choice.

    Raises:
        MissingError: a package is not installed.
        UsageError: the folder cannot be used.
    """

    def __init__(self, folder: Path | None = None, threads: int | None = None) -> None:
        require("torch", "safetensors", "tokenizers")
        if threads is not None:
            torch.set_num_threads(threads)
        folder = folder or weights_folder()
        self._network = Network(folder, torch.float32)
        self._prompter = Prompter(folder)
        self._prompter.check(self._network.vocabulary)
        self.context = self._network.context
        self._known: dict[tuple[int, ...], Past] = {}
        named = read_folder(folder).tokens
        mark = self.encode(named.get("bos_token") or named.get("eos_token") or "")
        self.start: tuple[int, ...] = tuple(mark[:1]) or (min(self._network.ends, default=0),)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, with nothing around it."""
        return self._prompter.encode(text)

    def piece(self, number: int) -> str:
        """One id as text."""
        return self._prompter.piece(number)

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """The ids of a conversation up to where the assistant's words begin, as the model's own template writes it.

        Raises:
            RenderError: the template refuses the conversation.
        """
        return list(self._prompter.renderer.render(list(messages), (), generation_prompt=True))

    def losses(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
        """For each (prompt, continuation): minus the log-probability, in nats, of each id of the continuation."""
        found: list[list[float]] = [[] for _ in pairs]
        skipped, past = self._before([prompt for prompt, _ in pairs])
        for batch in _batches([len(prompt) + len(after) - skipped for prompt, after in pairs]):
            hidden = self._network.read([[*pairs[at][0], *pairs[at][1]][skipped:] for at in batch], past)
            places = [
                (row, column, number)
                for row, at in enumerate(batch)
                for column, number in enumerate(pairs[at][1], len(pairs[at][0]) - skipped - 1)
            ]
            for begin in range(0, len(places), PLACES):
                part = places[begin : begin + PLACES]
                rows, columns, ids = (torch.tensor(each) for each in zip(*part, strict=True))
                logits = self._network.logits(hidden[rows, columns])
                nats = torch.logsumexp(logits, -1) - logits.gather(1, ids[:, None])[:, 0]
                for row, value in zip(rows.tolist(), nats.tolist(), strict=True):
                    found[batch[row]].append(value)
        return found

    def choices(self, prompts: Sequence[Sequence[int]], wanted: Sequence[int]) -> list[list[float]]:
        """For each prompt: the log-probability, in nats, of each of some ids as the next one."""
        found: list[list[float]] = [[] for _ in prompts]
        skipped, past = self._before(prompts)
        for batch in _batches([len(prompt) - skipped for prompt in prompts]):
            hidden = self._network.read([prompts[at][skipped:] for at in batch], past)
            last = hidden[torch.arange(len(batch)), torch.tensor([len(prompts[at]) - skipped - 1 for at in batch])]
            logprobs = torch.log_softmax(self._network.logits(last), -1)[:, list(wanted)]
            for at, row in zip(batch, logprobs.tolist(), strict=True):
                found[at] = row
        return found

    def _before(self, prompts: Sequence[Sequence[int]]) -> tuple[int, Past]:
        """How many ids all prompts begin with, such as a template's own words, and what the network remembers of them:
        they are read once. The last id of a prompt is left, for something must be read behind them."""
        if len(prompts) < 2:
            return 0, ()
        listed = [list(prompt) for prompt in prompts]
        first, last = min(listed), max(listed)
        most = min(map(len, prompts)) - 1
        count = next((at for at in range(most) if first[at] != last[at]), most)
        if count < LEAST_SHARED:
            return 0, ()
        ids = tuple(first[:count])
        if ids not in self._known:
            self._known = {ids: self._network.remember(ids)}
        return count, self._known[ids]


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Places of rows to compute together: of about one length, at most `TOKENS` ids with their filling."""
    order = sorted(range(len(lengths)), key=lambda at: lengths[at])
    made: list[list[int]] = []
    for at in order:
        if made and lengths[at] * (len(made[-1]) + 1) <= TOKENS:
            made[-1].append(at)
        else:
            made.append([at])
    return made
