"""A tokenizer as Silva uses it: text to ids and back, control tokens told from text that only looks like them.

    rendered text ─▶ encode ─▶ ids        what stands at the very beginning is read as such; all else as if words came
    ids ─▶ decode ─▶ text                 before it, so that a tail is cut as it is within the whole

An *anchor*, a token of our own that no text holds, stands before what is not the beginning: tokenizers of the
SentencePiece kind put a space before the first word and take it away again. Some put one behind every mark as well, and
so behind the anchor; the head of a tail, up to its first mark, is then read by one that does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from silva.errors import MissingError, UsageError
from silva.models.exact.shield import Marks

if TYPE_CHECKING:
    from tokenizers import Tokenizer

INSTALL = "pip install 'silva[exact]'"
ANCHOR = "\U000ffffe\U000ffffd"
_MARK = re.compile(r"\s*[<\[]\S.*[>\]]\s*", re.DOTALL)
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


class Vocabulary:
    """The tokens of a `tokenizer.json`.

    `controls` maps the text of each control token to its id: those the file calls special, and added ones written like
    a mark (`<think>`, `[INST]`).

    Args:
        text: the file's content.
        name: of the model's folder, for messages.

    Raises:
        MissingError: the package tokenizers is not installed.
        UsageError: the content is no tokenizer.
    """

    def __init__(self, text: str, name: str) -> None:
        try:
            data: dict[str, Any] = json.loads(text)
            added = _added(data)
            self.controls: dict[str, int] = {
                token["content"]: token["id"]
                for token in added
                if token.get("special") or _MARK.fullmatch(token["content"])
            }
            if added != (data.get("added_tokens") or []):
                data["added_tokens"] = added
                text = json.dumps(data)
            self._tokenizer = _open(text)
            plain = _without(data, set(self.controls))
            self._plain = _open(json.dumps(plain))
            inner = _unspaced(plain)
            self._inner = self._plain if inner == plain else _open(json.dumps(inner))
        except (KeyError, TypeError, AttributeError, ValueError) as fault:
            raise UsageError(f"model folder {name}: tokenizer.json cannot be used: {fault}") from fault
        self._texts = {number: mark for mark, number in self.controls.items()}
        self.marks = Marks([*self.controls, ANCHOR])  # our own mark is nobody's word either
        self._anchor: int = self._tokenizer.encode(ANCHOR, add_special_tokens=False).ids[0]
        plain_anchor: int = self._plain.encode(ANCHOR, add_special_tokens=False).ids[0]
        self._unwanted = frozenset({*self._texts, plain_anchor})
        self.size = self._anchor
        """All its ids lie below."""
        self.encoded = 0
        """Ids made so far, over all calls: what tokenising cost."""

    def text_of(self, number: int) -> str | None:
        """The text of a control token, None where the id is none."""
        return self._texts.get(number)

    def encode(self, text: str, *, first: bool, breaker: str = "") -> tuple[int, ...]:
        """The ids of a text.

        Args:
            text: as rendered.
            first: whether it begins the context.
            breaker: the shield's character; what is broken by it is read as plain text, without it.

        Raises:
            ValueError: the text holds half a surrogate pair, which no tokenizer can read.
        """
        try:
            if breaker and breaker in text:
                ids = self._encode_shielded(text, first, breaker)
            else:
                ids = _ids(self._tokenizer, text, first) if first else self._encode_within(text)
        except (UnicodeEncodeError, TypeError) as fault:
            raise ValueError("a text holds half a surrogate pair") from fault
        self.encoded += len(ids)
        return tuple(ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids that stand after others. Bytes that are no UTF-8 become U+FFFD, ids of no token nothing."""
        if not ids:
            return ""
        kept = [number for number in ids if number != self._anchor]
        return self._tokenizer.decode([self._anchor, *kept], skip_special_tokens=False).removeprefix(ANCHOR)

    def _encode_within(self, text: str) -> list[int]:
        """The ids of a text that goes on from words: no space that is not its own comes before its head."""
        if self._inner is self._plain or not text:
            return _ids(self._tokenizer, text, False)
        encoding = self._tokenizer.encode(ANCHOR + text, add_special_tokens=False)
        ids = encoding.ids[1:]
        place = next((place for place, number in enumerate(ids) if number in self._texts), len(ids))
        head = text if place == len(ids) else text[: encoding.offsets[place + 1][0] - len(ANCHOR)]
        return _ids(self._inner, head, False) + ids[place:]

    def _encode_shielded(self, text: str, first: bool, breaker: str) -> list[int]:
        encoding = self._tokenizer.encode(text if first else ANCHOR + text, add_special_tokens=False)
        shift = 0 if first else len(ANCHOR)
        ids: list[int] = []
        start = 0
        for number, (begin, end) in zip(encoding.ids, encoding.offsets, strict=True):
            if number in self._texts:
                ids += self._encode_plain(text[start : begin - shift].replace(breaker, ""), first, head=not start)
                ids.append(number)
                start = end - shift
        return ids + self._encode_plain(text[start:].replace(breaker, ""), first, head=not start)

    def _encode_plain(self, text: str, first: bool, *, head: bool) -> list[int]:
        """The ids of words behind a mark, or of the `head` of all."""
        if not text:
            return []
        tokenizer = self._inner if head and not first else self._plain
        ids = _ids(tokenizer, text, first and head)
        if self._unwanted.isdisjoint(ids):
            return ids
        # the model's own vocabulary has the mark as a word: one character at a time cannot make it
        ids = _ids(tokenizer, text[0], first and head)
        return ids + [number for letter in text[1:] for number in _ids(self._inner, letter, False)]


def _ids(tokenizer: Tokenizer, text: str, first: bool) -> list[int]:
    if not text:
        return []
    if first:
        return tokenizer.encode(text, add_special_tokens=False).ids
    return tokenizer.encode(ANCHOR + text, add_special_tokens=False).ids[1:]


def _open(text: str) -> Tokenizer:
    try:
        from tokenizers import AddedToken, Tokenizer
    except ModuleNotFoundError as fault:
        raise MissingError(f"exact tokens need tokenizers, which is not installed: {INSTALL}") from fault
    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception as fault:
        raise ValueError(" ".join(str(fault).split())[:200]) from fault
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.add_special_tokens([AddedToken(ANCHOR, normalized=False, special=True)])
    return tokenizer


def _added(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The added tokens of a tokenizer; not those that stand for its bytes, which its model has anyhow."""
    added: list[dict[str, Any]] = data.get("added_tokens") or []
    model: Any = data.get("model") or {}
    if not model.get("byte_fallback"):
        return added
    return [token for token in added if not (_BYTE.fullmatch(token["content"]) and token["content"] in model["vocab"])]


def _unspaced(data: dict[str, Any]) -> dict[str, Any]:
    """The same tokenizer, which puts no space before words."""
    normalizer, splitter = data.get("normalizer"), data.get("pre_tokenizer")
    return {**data, "normalizer": _unspaced_step(normalizer), "pre_tokenizer": _unspaced_step(splitter)}


def _unspaced_step(step: Any) -> Any:
    if not isinstance(step, dict):
        return step
    kind: Any = step.get("type")
    if kind == "Prepend":
        return None
    if kind == "Sequence":
        name = "normalizers" if "normalizers" in step else "pretokenizers"
        steps = [_unspaced_step(each) for each in step.get(name) or []]
        return {**step, name: [each for each in steps if each is not None]}
    if kind == "Metaspace" and step.get("prepend_scheme", "always") == "always":
        return {**step, "prepend_scheme": "never", "add_prefix_space": False}
    return {**step, "add_prefix_space": False} if kind == "ByteLevel" and step.get("add_prefix_space") else step


def _without(data: dict[str, Any], controls: Iterable[str]) -> dict[str, Any]:
    """The same tokenizer in which no text is a control token; every other token keeps its id."""
    model: Any = data.get("model") or {}
    words: Any = model.get("vocab") or {}
    known = set(words) if isinstance(words, dict) else {word for word, _ in words}
    unwanted = set(controls)
    kept: list[dict[str, Any]] = []
    for token in data.get("added_tokens") or []:
        if token["content"] not in unwanted:
            kept.append(token)
        elif token["content"] not in known:  # its number must stay taken, or those after it move up
            kept.append({**token, "content": f"{ANCHOR}{token['id']}", "special": True, "normalized": False})
    return {**data, "added_tokens": kept, "post_processor": None}
