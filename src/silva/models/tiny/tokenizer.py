"""The tokenizer of a tiny policy: bytes, merged where an environment's texts repeat themselves.

    conversations ─▶ template ─▶ text ─▶ cut at the marks ─▶ byte-level BPE (Sennrich et al. 2016) ─▶ tokenizer.json

Every byte has an id, so nothing is unknown. Numbers are cut into digits: a count is then read the same wherever it
stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from silva.errors import MissingError
from silva.models.exact.template import Template
from silva.models.exact.vocabulary import INSTALL
from silva.tree import Message, Tool

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END = "<|end|>"
ROLES = {role: f"<|{role}|>" for role in ("user", "assistant", "tool")}
MARKS = (END, *ROLES.values())
CALL_MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
"""Words of their own, so that a call costs few ids; no control tokens, as in the models that are taught calls."""

TEMPLATE = (
    "{% for message in messages %}{% if message['role'] != 'system' %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)

Conversation = tuple[Sequence[Message], tuple[Tool, ...]]
"""Messages as the agent shows them to its model, and the tools it offers beside them."""


def train_tokenizer(conversations: Iterable[Conversation], size: int) -> Tokenizer:
    """Learn the merges from conversations.

    Args:
        conversations: the environment's; their order does not matter to the result.
        size: the most tokens there may be.

    Raises:
        MissingError: the package tokenizers is not installed.
    """
    try:
        from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers
        from tokenizers import Tokenizer as Made
    except ModuleNotFoundError as fault:
        raise MissingError(f"a tiny policy needs tokenizers, which is not installed: {INSTALL}") from fault
    tokenizer = Made(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(CALL_MARKS),
        min_frequency=2,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[AddedToken(mark, normalized=False, special=True) for mark in MARKS],
    )
    tokenizer.train_from_iterator(_texts(conversations), trainer)
    tokenizer.add_tokens([AddedToken(mark, normalized=False, special=False) for mark in CALL_MARKS])
    return tokenizer


def _texts(conversations: Iterable[Conversation]) -> Iterator[str]:
    template = Template(TEMPLATE, {}, "tiny", datetime(2000, 1, 1, tzinfo=UTC))
    cut = re.compile("|".join(map(re.escape, (*MARKS, *CALL_MARKS))))
    for messages, tools in conversations:
        yield from filter(None, cut.split(template.render(messages, tools, ready=False)))
