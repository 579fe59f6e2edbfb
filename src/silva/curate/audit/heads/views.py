"""What a head looks at in a row: each text, or each pair of texts, with the node that is blamed.

text   what one node says                              reply  a reply, and what was asked for it
pair   two texts of one thing: sentences of a reply, a reply and its reference, a question and its answer
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from silva.curate.audit.heads.stance import stance
from silva.curate.rows import Row
from silva.tree import Node
from silva.tree.message import Role

_SENTENCE = re.compile(r"[^.!?\n]+(?:[.](?=\d)[^.!?\n]*)*[.!?]?")
REFERENCES = ("reference", "ground_truth", "expected", "gold", "context", "source_text", "correct_answer")
"""Fields of a row that say what is so."""
_MOST_SENTENCES = 24
_WINDOW, _STEP, _MOST_WINDOWS = 500, 350, 8


class Unit(NamedTuple):
    """One thing that a head scores: a text (`right`), with what it is held against (`left`, "" for a lone text). `node`
    is blamed, at `start` to `stop` of its text (both 0: the whole)."""

    node: Node
    right: str
    left: str = ""
    start: int = 0
    stop: int = 0


def texts(row: Row, roles: frozenset[Role], windows: bool = False) -> Iterator[Unit]:
    """What each node of these roles says; `windows`: a long one also piece by piece."""
    for node in _once(row):
        text = node.message.text
        if node.message.role not in roles or not text.strip():
            continue
        yield Unit(node, text)
        if windows and len(text) > _WINDOW * 1.3:
            last = max(1, min(_MOST_WINDOWS, 1 + (len(text) - _WINDOW) // _STEP))
            for place in range(last):
                at = round(place * (len(text) - _WINDOW) / max(1, last - 1))
                yield Unit(node, text[at : at + _WINDOW], "", at, at + _WINDOW)


def replies(row: Row) -> Iterator[Unit]:
    """Each reply of the assistant, with what was said to it last."""
    for walk in (row.nodes, row.rejected):
        asked = ""
        for node in walk:
            said = node.message.text
            if node.message.role == "assistant" and said.strip():
                yield Unit(node, said, asked)
            elif node.message.role in ("user", "system") and said.strip():
                asked = said
        if row.rejected and walk is row.nodes and row.rejected == row.nodes:
            return


def answers(row: Row) -> Iterator[Unit]:
    """Each reply with the question it answers; a reply to nothing is left out, and one made of calls."""
    for unit in replies(row):
        if unit.left.strip() and not unit.node.message.tool_calls:
            yield unit


def stances(row: Row) -> Iterator[Unit]:
    """Each reply to a question in which the person says what they think."""
    return (unit for unit in answers(row) if stance(unit.left, unit.right) is not None)


def sentences(row: Row) -> Iterator[Unit]:
    """Pairs of sentences of one reply, each later one held against each earlier one."""
    for unit in replies(row):
        said = _sentences(unit.right)
        for place, (start, stop, later) in enumerate(said):
            for _, _, earlier in said[:place]:
                yield Unit(unit.node, later, earlier, start, stop)


def references(row: Row) -> Iterator[Unit]:
    """Sentences of what is claimed (the last reply; of a text, the text) held against those of the row's reference."""
    given = next((row.data[name] for name in REFERENCES if isinstance(row.data.get(name), str)), "")
    held = [text for _, _, text in _sentences(given)] or ([given] if given.strip() else [])
    claims = [node for node in row.nodes if node.message.role == "assistant"][-1:] or list(row.nodes[-1:])
    for node in claims if held else ():
        for start, stop, claim in _sentences(node.message.text) or [(0, 0, node.message.text)]:
            for known in held:
                yield Unit(node, claim, known, start, stop)


def _sentences(text: str) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    for match in _SENTENCE.finditer(text[:20_000]):
        said = match.group().strip()
        if len(said.split()) >= 3:
            found.append((match.start(), match.end(), said))
        if len(found) >= _MOST_SENTENCES:
            break
    return found


def _once(row: Row) -> Iterator[Node]:
    seen: set[str] = set()
    for node in (*row.nodes, *row.rejected):
        if node.id not in seen:
            seen.add(node.id)
            yield node
