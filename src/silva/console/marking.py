"""Text of agents and environments as pages draw it: plain values that say what stands where, never markup.

    Markdown ─ markdown-it ─▶ blocks: {"tag", "children"} of a short list of tags; HTML in it is text
    ANSI     ─ rich ────────▶ lines of spans: {"text", "fg", "bg", "bold", …}, colours as one of sixteen

The browser makes elements from these values (`static/rendered.js`), so nothing a model wrote is ever parsed as HTML.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.ansi import AnsiDecoder
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style

Block = dict[str, Any]

MOST_LINES = 2_000
"""Lines of one terminal output that are drawn."""
MOST_MARKDOWN = 100_000
"""Characters read as Markdown; longer texts are drawn plain."""

_TAGS = {f"h{size}" for size in range(1, 7)} | {"p", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong", "s"}
_TAGS |= {"a", "table", "thead", "tbody", "tr", "th", "td", "hr", "br"}
_MARKDOWN = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
_MARKS = re.compile(r"[*_`#>|~\[]|^\s*(?:[-+]|\d+[.)])\s|\n\s*\n", re.MULTILINE)
_ESCAPE = re.compile(r"\x1b|\r(?!\n)|\x9b")
_TITLES = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_ORDERS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\^_=>78c])")
_CONSOLE = Console(width=80, file=None)


def markdown(text: str) -> list[Block] | None:
    """The blocks of a text; None where it has no marks (it is drawn as it stands), or is too long to be read."""
    if len(text) > MOST_MARKDOWN or not _MARKS.search(text):
        return None
    try:
        return _blocks(_MARKDOWN.parse(text))
    except (RecursionError, ValueError):
        return None


def _blocks(tokens: Sequence[Token]) -> list[Block]:
    root: list[Any] = []
    stack: list[list[Any]] = [root]
    for token in tokens:
        if token.nesting == 1:
            children: list[Any] = []
            stack[-1].append(_element(token, children))
            stack.append(children)
        elif token.nesting == -1:
            stack.pop()
        elif token.type == "inline":
            stack[-1] += _blocks(token.children or [])
        else:
            stack[-1].append(_leaf(token))
    return root


def _element(token: Token, children: list[Any]) -> Block:
    made: Block = {"tag": token.tag if token.tag in _TAGS else "p", "children": children}
    if token.tag == "a":
        made["href"] = _link(str(token.attrGet("href") or ""))
    if token.hidden:
        made["tag"] = ""
    return made


def _leaf(token: Token) -> Block | str:
    if token.type in ("fence", "code_block"):
        return {"tag": "pre", "children": [token.content], "language": token.info.split(" ")[0][:40]}
    if token.type == "code_inline":
        return {"tag": "code", "children": [token.content]}
    if token.type == "softbreak":
        return "\n"
    if token.type in ("hardbreak", "hr"):
        return {"tag": token.tag, "children": []}
    if token.type == "image":
        # A picture from elsewhere would tell its server that somebody reads this.
        return f"[image: {token.content or token.attrGet('src') or ''}]"
    return token.content


def _link(href: str) -> str:
    try:
        scheme = urlsplit(href).scheme.lower()
    except ValueError:
        return ""
    return href if scheme in ("http", "https", "mailto") else ""


def ansi(text: str) -> list[list[dict[str, Any]]] | None:
    """The lines of a terminal's output with their colours; None where it has no escapes. What a carriage return wrote
    over is gone, as on a terminal; orders other than colours are left out."""
    if not _ESCAPE.search(text):
        return None
    decoder = AnsiDecoder()
    found: list[list[dict[str, Any]]] = []
    lines = _TITLES.sub("", text).replace("\r\n", "\n").split("\n")
    for line in lines[:MOST_LINES]:
        decoded = decoder.decode_line(line)
        spans: list[dict[str, Any]] = []
        for segment in decoded.render(_CONSOLE):
            if segment.text:
                spans.append({"text": segment.text, **_look(segment.style)})
        found.append(spans)
    if len(lines) > MOST_LINES:
        found.append([{"text": f"… {len(lines) - MOST_LINES:,} lines more"}])
    return found


def bare(text: str) -> str:
    """A terminal's output without its orders and colours, for one line of a list."""
    return _ORDERS.sub("", _TITLES.sub("", text)) if "\x1b" in text else text


def _look(style: Style | None) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if style is None:
        return made
    fg, bg = style.color, style.bgcolor
    if style.reverse:
        fg, bg = bg, fg
        made["reverse"] = True
    for name, color in (("fg", fg), ("bg", bg)):
        if color is not None and not color.is_default:
            made[name] = color.downgrade(ColorSystem.STANDARD).number
    for name in ("bold", "dim", "italic", "underline", "strike"):
        if getattr(style, name):
            made[name] = True
    return made
