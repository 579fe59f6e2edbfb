"""From a word to a renderer: a folder, `local` for the bundled model, `scripted` for the scripted one's bytes."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from silva.models.exact.folder import read_folder
from silva.models.exact.renderer import Renderer
from silva.models.exact.scripted import ByteRenderer
from silva.models.exact.templated import TemplateRenderer
from silva.models.exact.token_table import table_digest, token_table

LOCAL, SCRIPTED = "local", "scripted"


def source_digest(source: str | Path) -> str:
    """Which tokens the ids of a renderer's source stand for (`table_digest`); "" where it has no table.

    Raises:
        UsageError: its tokenizer cannot be read.
        MissingError: the bundled model is not installed.
    """
    if source == SCRIPTED:
        return ""
    if source == LOCAL:
        from silva.models.bundled import weights_folder

        source = weights_folder()
    return table_digest(token_table(Path(source)))


def open_renderer(
    source: str | Path,
    *,
    options: dict[str, Any] | None = None,
    today: datetime | None = None,
    keep_history: bool = False,
) -> Renderer:
    """The renderer of a model.

    Args:
        source: a folder with tokenizer.json and a chat template, as Hugging Face checkpoints have them; `local`;
            `scripted`. A folder of that name is written `./local`.
        options: variables for the chat template, such as `{"enable_thinking": False}`.
        today: the date the template is told; now where left out, and the same as long as the renderer lives.
        keep_history: as in `TemplateRenderer`: never restart because a template rewrites earlier turns.

    Raises:
        UsageError: the folder or a file in it cannot be used; the message says which.
        MissingError: a package is not installed; the message gives the command.
    """
    if source == SCRIPTED:
        return ByteRenderer()
    if source == LOCAL:
        from silva.models.bundled import weights_folder

        source = weights_folder()
    return TemplateRenderer(read_folder(Path(source)), options, today, keep_history=keep_history)
