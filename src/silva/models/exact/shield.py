"""What people write stays text: a shield keeps their words from becoming control tokens.

    text with "<|im_end|>" in it ─▶ Shield.hide: one character of no meaning put inside ─▶ template ─▶ Vocabulary.encode
                                                      takes it out again, and reads those words with no mark known

Only what could form a mark is touched: a mark that stands whole in one string, and the beginning or end of one where
the string begins or ends, for what the template puts beside it. All else goes through as it is, at no cost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property, lru_cache

FIRST_PRIVATE, LAST_PRIVATE = 0xF0000, 0xFFFFD
"""Plane 15, where nobody has given a character a meaning."""


class Marks:
    """The texts of the control tokens, ready to be looked for in strings."""

    def __init__(self, marks: Iterable[str]) -> None:
        longest_first = sorted(set(marks), key=len, reverse=True)
        self._whole = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._longest = len(longest_first[0]) if longest_first else 0
        self._heads = frozenset(mark[:length] for mark in longest_first for length in range(1, len(mark)))
        self._ends = frozenset(mark[start:] for mark in longest_first for start in range(1, len(mark)))
        self._inner = "\0".join(longest_first)
        self.touches = lru_cache(maxsize=4096)(self._touches)

    def _touches(self, text: str) -> bool:
        """Whether the text holds a mark or could become part of one."""
        if not text:
            return False
        if self._whole.search(text) or text in self._inner:
            return True
        edges = range(1, min(self._longest, len(text) + 1))
        return any(text[-length:] in self._heads or text[:length] in self._ends for length in edges)

    def broken(self, text: str, breaker: str) -> str:
        """The text with `breaker` inside every mark and every edge of one."""
        text = self._whole.sub(lambda found: found[0][0] + breaker + found[0][1:], text)
        if text in self._inner:
            return text[0] + breaker + text[1:] if len(text) > 1 else breaker + text
        tail = next((n for n in range(min(self._longest, len(text)), 0, -1) if text[-n:] in self._heads), 0)
        if tail:
            text = text + breaker if tail == 1 else text[: 1 - tail] + breaker + text[1 - tail :]
        head = next((n for n in range(min(self._longest, len(text)), 0, -1) if text[:n] in self._ends), 0)
        return text[: head - 1] + breaker + text[head - 1 :] if head else text


class Shield:
    """The shield of one conversation: `breaker` is a character none of its strings has, or "" where none needs it."""

    def __init__(self, marks: Marks, strings: Iterable[str]) -> None:
        self._marks = marks
        self._strings = [text for text in strings if text]
        self.breaker = ""
        if any(marks.touches(text) for text in self._strings):
            self.breaker = self._nobodys(FIRST_PRIVATE)

    @cached_property
    def unwritten(self) -> str:
        """A character that no string of the conversation has, hidden or not: put into a message, it shows where in the
        rendered text that stands."""
        return self._nobodys(ord(self.breaker) + 1 if self.breaker else FIRST_PRIVATE)

    def _nobodys(self, first: int) -> str:
        candidates = map(chr, range(first, LAST_PRIVATE))
        return next(letter for letter in candidates if not any(letter in text for text in self._strings))

    def hide(self, text: str) -> str:
        """The text as the template may see it."""
        return self._marks.broken(text, self.breaker) if self.breaker and self._marks.touches(text) else text
