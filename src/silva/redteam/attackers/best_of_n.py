"""Best-of-n: many variants of one text, each drawn apart from the others (Hughes et al. 2024, arXiv 2412.03556).

A variant has letters in the other case, the middles of words shuffled, and letters exchanged for their neighbours in
the alphabet; the order's own words stay, so that what it asks for can be done.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from silva.redteam.attackers.attacker import Attacker, Brief, Proposal
from silva.redteam.attackers.writer import Try, Wish, Writer


class BestOfN(Attacker):
    """Draws variants; the first is the text itself."""

    name: str = "best_of_n"
    summary: str = "many variants of one text, drawn apart from each other"
    standards: tuple[str, ...] = ("AML.T0054",)

    async def propose(self, brief: Brief, tried: Sequence[Try], writer: Writer) -> Proposal:
        """See `Attacker`."""
        words = "\n".join(brief.framing.words(brief.order))
        if not tried:
            return Proposal(words=words, how=brief.framing.name)
        if _bare(words, brief.order.text) == "":
            wish = Wish("fresh", brief.order, brief.task, brief.surface, brief.draw)
            words = await writer.write(wish)
        return Proposal(words=varied(words, brief.order.text, brief.draw), how="variant")


def varied(words: str, keep: str, draw: Random) -> str:
    """A variant of a text, the words of `keep` as they are wherever they stand."""
    for form in (keep, keep[:1].upper() + keep[1:]):
        if form and form in words:
            before, _, after = words.partition(form)
            return f"{_noised(before, draw)}{form}{_noised(after, draw)}"
    return _noised(words, draw) if not keep else words


def _bare(words: str, text: str) -> str:
    return "".join(each for each in words.replace(text, "").replace(text[:1].upper() + text[1:], "") if each.isalpha())


def _noised(text: str, draw: Random) -> str:
    return " ".join(_word(word, draw) for word in text.split(" "))


def _word(word: str, draw: Random) -> str:
    if not word.isalpha() or "ref-" in word:
        return word
    letters = list(word)
    if len(letters) > 3 and draw.random() < 0.4:
        middle = letters[1:-1]
        draw.shuffle(middle)
        letters[1:-1] = middle
    return "".join(_letter(each, draw) for each in letters)


def _letter(letter: str, draw: Random) -> str:
    if draw.random() < 0.05 and "a" <= letter.lower() < "z":
        letter = chr(ord(letter) + 1)
    return letter.swapcase() if draw.random() < 0.3 else letter
