"""The field's file formats: trees out, trees in, by name.

    lake ─▶ Bundle … ─▶ write("messages", bundles) ─▶ pieces of text or bytes ─▶ the caller's file
    file ─▶ lines or bytes ─▶ read("atif", source) ─▶ Bundle … ─▶ lake

Pure functions: nothing here opens a file. What is written is read back without loss, even through several formats: what
one lacks goes to its extension field, what Silva lacks is kept in attributes. Files of agents and of observers
(`claude-code`, `codex`, `swe-agent`, `langsmith`, `langfuse` and others) are read only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from silva.errors import UsageError
from silva.tree.formats import (
    adp,
    atif,
    autogen,
    claude_code,
    codex,
    inspect_eval,
    langfuse,
    langgraph,
    langsmith,
    messages,
    openai_agents,
    openenv,
    openhands,
    otel,
    parquet,
    phoenix,
    sharegpt,
    swe_agent,
    vercel_ai,
    verifiers,
)
from silva.tree.formats.bundle import Bundle, attempted, described, merged, renamed
from silva.tree.formats.detection import Format, detected, is_atif, is_messages, is_parquet
from silva.tree.formats.errors import FormatError, suggestion
from silva.tree.formats.images import Loader, reference
from silva.tree.formats.salvage import Note, Salvaged, salvage
from silva.tree.formats.tasks import read_tasks, write_tasks
from silva.tree.formats.values import without_mark
from silva.tree.message import Role

_ASKING: tuple[Role, ...] = ("system", "user", "tool")
_ALL: tuple[Role, ...] = (*_ASKING, "assistant")
_KNOWN = (
    Format("messages", ".jsonl", False, messages.write, messages.read, is_messages, general=True, by_row=True),
    Format("atif", ".json", False, atif.write, atif.read, is_atif),
    Format("parquet", ".parquet", True, parquet.write, parquet.read, is_parquet, ("*.parquet",), embeds=_ALL),
    Format("sharegpt", ".jsonl", False, sharegpt.write, sharegpt.read, sharegpt.recognise, by_row=True),
    Format("adp", ".jsonl", False, adp.write, adp.read, adp.recognise, by_row=True),
    Format("otel", ".json", False, otel.write, otel.read, otel.recognise),
    Format(
        "verifiers", ".jsonl", False, verifiers.write, verifiers.read, verifiers.recognise, embeds=_ASKING, by_row=True
    ),
    Format("openenv", ".jsonl", False, openenv.write, openenv.read, openenv.recognise, embeds=_ALL, by_row=True),
    Format(
        "inspect",
        ".eval",
        True,
        inspect_eval.write,
        inspect_eval.read,
        inspect_eval.recognise,
        ("*.eval",),
        embeds=_ALL,
    ),
    Format("claude-code", ".jsonl", False, None, claude_code.read, claude_code.recognise),
    Format("codex", ".jsonl", False, None, codex.read, codex.recognise, ("rollout-*.jsonl",)),
    Format("langsmith", ".jsonl", False, None, langsmith.read, langsmith.recognise),
    Format("phoenix", ".jsonl", False, None, phoenix.read, phoenix.recognise),
    Format("swe-agent", ".traj", False, None, swe_agent.read, swe_agent.recognise, by_row=True),
    Format("openhands", ".jsonl", False, None, openhands.read, openhands.recognise),
    Format("autogen", ".json", False, None, autogen.read, autogen.recognise, by_row=True),
    Format("vercel-ai", ".json", False, None, vercel_ai.read, vercel_ai.recognise),
    Format("langgraph", ".json", False, None, langgraph.read, langgraph.recognise),
    Format("langfuse", ".json", False, None, langfuse.read, langfuse.recognise),
    Format("openai-agents", ".jsonl", False, None, openai_agents.read, openai_agents.recognise),
)
FORMATS = {form.name: form for form in _KNOWN}
WRITABLE = tuple(form.name for form in _KNOWN if form.write is not None)
"""Formats that go both ways."""


def find(name: str) -> Format:
    """The format of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in FORMATS:
        raise UsageError(f"unknown format {name!r}{suggestion(name, FORMATS)}; known: {', '.join(FORMATS)}")
    return FORMATS[name]


def write(name: str, bundles: Iterable[Bundle]) -> Iterator[str | bytes]:
    """Write bundles in a format: pieces of text (each a line) or of bytes, in order.

    Raises:
        UsageError: no such format, or one that is read only.
        FormatError: a bundle that lacks part of a walk, or a value the format has no way to write.
    """
    form = find(name)
    if form.write is None:
        raise UsageError(f"{name} is read only; to write there are {', '.join(WRITABLE)}")
    return form.write(bundles)


def read(
    name: str,
    source: Iterable[str | bytes] | bytes,
    *,
    file: str | None = None,
    run: str = "imported",
    load: Loader | None = None,
) -> Iterator[Bundle]:
    """Read bundles from a format, all or none: `salvage` reads what of a file can be read.

    Args:
        name: the format's name.
        source: the file's lines, or its bytes for a binary format (or for any).
        file: the file as errors name it.
        run: the run of what does not name its own.
        load: gives the bytes of an image by the path the file has for it.

    Raises:
        UsageError: no such format.
        FormatError: with line and field; what came before it has been given already.
    """
    wanted = find(name)
    shown = file or f"file{wanted.ending}"
    if wanted.binary:
        given = wanted.read(source if isinstance(source, bytes) else b"".join(_bytes(source)), shown, run, load)
    else:
        lines = without_mark(source).split(b"\n") if isinstance(source, bytes) else source
        given = wanted.read(lines, shown, run, load)
    return _strict(given)


def detect(path: str, sample: bytes) -> str:
    """The name of the format of a file, by its bytes (some kilobytes will do where lines are short) and its name.

    Raises:
        UsageError: it is none of them, or could be several.
    """
    return detected(path, without_mark(sample), FORMATS)


def _strict(given: Iterable[Bundle | FormatError]) -> Iterator[Bundle]:
    for each in given:
        if isinstance(each, FormatError):
            raise each
        yield each


def _bytes(source: Iterable[str | bytes]) -> Iterator[bytes]:
    for piece in source:
        yield piece.encode() if isinstance(piece, str) else piece


__all__ = [
    "FORMATS",
    "WRITABLE",
    "Bundle",
    "Format",
    "FormatError",
    "Loader",
    "Note",
    "Salvaged",
    "attempted",
    "described",
    "detect",
    "find",
    "merged",
    "read",
    "read_tasks",
    "reference",
    "renamed",
    "salvage",
    "write",
    "write_tasks",
]
