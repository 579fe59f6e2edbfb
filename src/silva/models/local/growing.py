"""A reply's text as its ids come in: decoded piecewise, cut at a stop string, shown as far as it is certain."""

from __future__ import annotations

from collections.abc import Sequence

from silva.models.local.engine import Job
from silva.models.local.prompt import Prompter

SETTLE = 32
"""Ids decoded again and again before what they say is taken as settled."""


class Growing:
    """The text of one reply. What has no `stops` and is shown to nobody early may take in its ids all at once.

    Args:
        prompter: decodes.
        stops: strings that end the reply; the text is cut before them.
        marks: texts that begin something other than words (a tool call): nothing from there on is shown early.
        special: keep the marks of the template in the text.
    """

    def __init__(
        self, prompter: Prompter, stops: Sequence[str], marks: Sequence[str] = (), special: bool = False
    ) -> None:
        self._prompter = prompter
        self.stops = tuple(stops)
        self._marks = tuple(marks)
        self._special = special
        self._settled_text = ""
        self._settled_ids = 0
        self.text = ""
        self.stop: str | int | None = None

    def grow(self, job: Job) -> None:
        """Take in what is new; ends the job at a stop string. Called in the engine's thread.

        The id that ended the job is not part of the text; `stop` becomes it where the request named it, or the string.
        """
        ended = job.finish == "stop"
        if ended and job.ids[-1] not in self._prompter.ends:
            self.stop = job.ids[-1]
        ids = job.ids[self._settled_ids : -1 if ended else None]
        tail = self._prompter.decode(ids, self._special)
        text = self._settled_text + tail
        if len(ids) > SETTLE and not tail.endswith("�") and tail.endswith((" ", "\n")):
            # a byte-level tokenizer decodes piecewise wherever no character is cut
            self._settled_text, self._settled_ids = text, len(job.ids)
        found = min(((place, stop) for stop in self.stops if (place := text.find(stop)) >= 0), default=None)
        if found is not None:
            text, self.stop = text[: found[0]], found[1]
            job.finish = "stop"
        self.text = text

    @property
    def shown(self) -> str:
        """The text that later tokens cannot change or turn into a mark or a stop string."""
        text = self.text.rstrip("�")
        starts = [place for mark in self._marks if (place := text.find(mark)) >= 0]
        if starts:
            return text[: min(starts)]
        for mark in (*self._marks, *self.stops):
            for length in range(min(len(mark) - 1, len(text)), 0, -1):
                if text.endswith(mark[:length]):
                    text = text[:-length]
                    break
        return text
