"""Questions with a demand on the form of the reply, and replies that are made to meet it or to fail it.

    seed ─▶ a kind of demand, one of its wordings, a number or a word ─▶ reply made of that kind ─┬▶ met
                                                                                                 └▶ failed by a little

Whether a demand is met is known because the reply is put together to the count, not because a checker looked. Wordings
are ours, in several manners; some put a demand as people do and no rule may read it. They were written when the rules
stood, and no rule was changed for them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random

from silva.curate.audit.corpus import Corpus, Item, corpus
from silva.curate.audit.specimen import answered

COUNT = 480
_TOPICS = ("why the sea is salty", "how bread rises", "what a lighthouse is for", "how to mend a tyre",
           "where storks spend the winter", "what a notary does", "how glass is made", "why leaves turn")  # fmt: skip
_LINE = (
    "water slowly carries small grains along old stones until evening light fades over quiet fields while people "
    "gather wood near harbour walls and others mend nets beside long boats"
)
_WORDS = _LINE.split()

_Made = tuple[str, str, str]
"""A demand, a reply that meets it, one that fails it."""


def _sentence(draw: Random, count: int) -> str:
    said = [draw.choice(_WORDS) for _ in range(count)]
    return " ".join([said[0].capitalize(), *said[1:]]) + "."


def _text(draw: Random, sentences: int) -> str:
    return " ".join(_sentence(draw, draw.randrange(6, 12)) for _ in range(sentences))


def _counted(draw: Random, count: int) -> str:
    return " ".join(draw.choice(_WORDS) for _ in range(count))


def _points(draw: Random, count: int) -> str:
    return "\n".join(f"- {_sentence(draw, 6)}" for _ in range(count))


def _divided(draw: Random, count: int) -> str:
    return "\n\n".join(_text(draw, 2) for _ in range(count))


def _most_words(draw: Random) -> _Made:
    number = draw.randrange(30, 80, 10)
    asked = draw.choice((f"Use at most {number} words.", f"No more than {number} words, please.",
                         f"Keep it under {number + 1} words.", f"{number} words is the limit."))  # fmt: skip
    return asked, _counted(draw, number - draw.randrange(0, 8)), _counted(draw, number + draw.randrange(3, 40))


def _least_words(draw: Random) -> _Made:
    number = draw.randrange(40, 120, 10)
    asked = draw.choice((f"Write at least {number} words.", f"It has to be {number} words or more.",
                         f"No fewer than {number} words."))  # fmt: skip
    return asked, _counted(draw, number + draw.randrange(0, 30)), _counted(draw, number - draw.randrange(5, 30))


def _exact_sentences(draw: Random) -> _Made:
    number = draw.randrange(2, 6)
    asked = draw.choice((f"Answer in exactly {number} sentences.", f"Give me precisely {number} sentences.",
                         f"I want {number} sentences, not one more or less."))  # fmt: skip
    return asked, _text(draw, number), _text(draw, number + draw.choice((-1, 1, 2)))


def _exact_points(draw: Random) -> _Made:
    number = draw.randrange(2, 7)
    asked = draw.choice((f"List exactly {number} bullet points.", f"Answer with only {number} bullet points.",
                         f"Make it a list of {number} points."))  # fmt: skip
    return asked, _points(draw, number), _points(draw, number + draw.choice((-1, 1)))


def _json(draw: Random) -> _Made:
    asked = draw.choice(("Reply in JSON.", "Return the answer as valid JSON.", "Give me a JSON object, nothing else."))
    good = json.dumps({"answer": _sentence(draw, 7)})
    return asked, good, draw.choice((good[:-1], f"Here you are: {_sentence(draw, 6)}", good.replace('"', "'")))


def _small(draw: Random) -> _Made:
    asked = draw.choice(("Answer in lowercase letters.", "Use all lowercase.", "Please write everything small."))
    return asked, _text(draw, 3).lower(), _text(draw, 3)


def _capitals(draw: Random) -> _Made:
    asked = draw.choice(("Write in all capital letters.", "Use only uppercase.", "SHOUT THE WHOLE ANSWER."))
    return asked, _text(draw, 2).upper(), _text(draw, 1).upper() + " " + _text(draw, 1)


def _no_commas(draw: Random) -> _Made:
    asked = draw.choice(("Do not use commas.", "Write without any commas.", "Commas are forbidden."))
    plain = _text(draw, 3)
    return asked, plain, plain.replace(" ", ", ", 1)


def _ending(draw: Random) -> _Made:
    phrase = draw.choice(("That is all I know.", "Ask me again tomorrow.", "So it goes."))
    asked = draw.choice((f'End your answer with the phrase "{phrase}"', f'Finish with "{phrase}"',
                         f'The last words have to be "{phrase}"'))  # fmt: skip
    return asked, f"{_text(draw, 2)} {phrase}", f"{phrase} {_text(draw, 2)}"


def _holding(draw: Random) -> _Made:
    word = draw.choice(("lantern", "ferry", "orchard", "thistle"))
    asked = draw.choice((f'Mention the word "{word}".', f'Include the keyword "{word}".',
                         f'Somewhere in it "{word}" has to appear.'))  # fmt: skip
    return asked, f"{_text(draw, 2)} There is a {word} too.", f"{_text(draw, 2)} There are {word[:-1]}ns too."


def _lacking(draw: Random) -> _Made:
    word = draw.choice(("stones", "water", "people", "light"))
    asked = draw.choice((f'Do not use the word "{word}".', f'Never mention the word "{word}".',
                         f'"{word}" is a word I do not want to see.'))  # fmt: skip
    other = _text(draw, 3).replace(word, "birds").replace(word.capitalize(), "Birds")
    return asked, other, f"{other} And {word} besides."


def _paragraphs(draw: Random) -> _Made:
    number = draw.randrange(2, 5)
    asked = draw.choice((f"Write exactly {number} paragraphs.", f"Divide it into {number} paragraphs."))
    return asked, _divided(draw, number), _divided(draw, number + draw.choice((-1, 1)))


def _one_word(draw: Random) -> _Made:
    asked = draw.choice(("Answer with a single word.", "Reply in one word.", "One word will do, no more."))
    return asked, draw.choice(_WORDS).capitalize(), _sentence(draw, 4)


_KINDS: tuple[Callable[[Random], _Made], ...] = (
    _most_words, _least_words, _exact_sentences, _exact_points, _json, _small, _capitals, _no_commas, _ending, _holding,
    _lacking, _paragraphs, _one_word,
)  # fmt: skip


@corpus
class Demanded(Corpus):
    """Demands of thirteen kinds in several wordings, each met in half of the rows and failed in the other half."""

    name = "demanded"
    licence = "Apache-2.0"
    origin = "made here"
    labels = frozenset({"instruction_mismatch"})
    only = frozenset({"constraint_rules"})

    def items(self) -> Iterator[Item]:
        """See `Corpus`."""
        for number in range(COUNT):
            draw = Random(f"demanded {number}")
            asked, met, failed = _KINDS[number % len(_KINDS)](draw)
            fails = draw.random() < 0.5
            question = f"Tell me {draw.choice(_TOPICS)}."
            prompt = f"{question} {asked}" if draw.random() < 0.7 else f"{asked} {question}"
            row = answered(f"demanded:{number}", prompt, failed if fails else met)
            yield Item(row=row, risks=self.labels if fails else frozenset())
