"""The folder of a tiny policy: everything a trainer, a renderer and a server ask for, written whole or not at all."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from silva.errors import MissingError, UsageError
from silva.models.tiny.shape import Shape, configuration, first_weights
from silva.models.tiny.tokenizer import END, MARKS, TEMPLATE, Conversation, train_tokenizer
from silva.tree import Record


class Made(Record, frozen=True, kw_only=True):
    """What was written: how many numbers the weights hold, how many tokens the tokenizer has."""

    parameters: int
    vocabulary: int


def demand_free(folder: Path) -> None:
    """See that a folder is new or empty.

    Raises:
        UsageError: it holds something.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"folder {folder}: it holds something already; choose another --output")


def write_tiny(folder: Path, conversations: Iterable[Conversation], shape: Shape | None = None, seed: int = 0) -> Made:
    """Make a policy that knows nothing but the words of its environment.

    Args:
        folder: where; must not hold anything yet.
        conversations: what the tokenizer learns its words from, as the agent shows them to its model.
        shape: of the network.
        seed: of the first weights.

    Raises:
        UsageError: there are no conversations, the folder is taken, or it cannot be written.
        MissingError: the packages tokenizers or safetensors are not installed.
    """
    try:
        from safetensors.numpy import save_file
    except ModuleNotFoundError as fault:
        raise MissingError(
            "a tiny policy needs safetensors, which is not installed: pip install 'silva[local]'"
        ) from fault
    shape = shape or Shape()
    heard = list(conversations)
    if not heard:
        raise UsageError("a tiny policy learns its words from conversations, and there is none: give it tasks")
    demand_free(folder)
    tokenizer = train_tokenizer(heard, shape.vocabulary)
    end = MARKS.index(END)  # a trainer numbers the marks first
    architecture = shape.architecture(folder.name, tokenizer.get_vocab_size(), end)
    texts = {
        "config.json": configuration(architecture, end),
        "generation_config.json": {"eos_token_id": end, "pad_token_id": end},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": END,
            "pad_token": END,
            "model_max_length": architecture.context,
            "clean_up_tokenization_spaces": False,
        },
    }
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
        try:
            save_file(first_weights(architecture, seed), unfinished / "model.safetensors", metadata={"format": "pt"})
            tokenizer.save(str(unfinished / "tokenizer.json"))
            (unfinished / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
            for name, value in texts.items():
                (unfinished / name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
            unfinished.chmod(0o755)
            if folder.exists():
                folder.rmdir()
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as fault:
        raise UsageError(f"folder {folder}: it cannot be written: {fault.strerror or fault}") from fault
    return Made(parameters=architecture.parameters, vocabulary=architecture.vocabulary)
