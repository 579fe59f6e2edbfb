"""OpenAI Responses.

    bytes ─▶ reading (items, offered) ─▶ Asked     Completion ─▶ output ─▶ items ─▶ writing ─▶ JSON
                                                   Delta … Completion ─▶ events (the same items, piece by piece)

Items that one reply gave (reasoning, message, calls) come back as one assistant message. `instructions` become the
first system message; with `previous_response_id` they stand before the new input only, and `echo["instructions"]` tells
the gateway so. Fields of this API that the chat API says otherwise are translated into it in `sampling.extra`
(`text.format`, `text.verbosity`, `reasoning.effort`); those that concern a store or a cache stay in `echo` alone. A
built-in tool is refused by name, but for `custom` (a function with the one argument `input`) and `local_shell`.
"""

from __future__ import annotations

from silva.models.gateway.dialects.dialect import Asked, Stamp
from silva.models.gateway.dialects.openai_errors import error_body
from silva.models.gateway.dialects.responses.events import ResponsesEvents
from silva.models.gateway.dialects.responses.reading import read
from silva.models.gateway.dialects.responses.writing import write
from silva.models.model import Completion


class Responses:
    """The dialect of `/v1/responses`."""

    name = "responses"

    def decode(self, body: bytes) -> Asked:
        """Read a request. `previous` is an earlier reply's id without its prefix.

        Raises:
            Malformed: with the field and what is wrong with it.
        """
        return read(body)

    def encode(self, asked: Asked, completion: Completion, stamp: Stamp) -> bytes:
        """The whole reply as JSON."""
        return write(asked, completion, stamp)

    def events(self, asked: Asked, stamp: Stamp) -> ResponsesEvents:
        """A writer for the streamed reply."""
        return ResponsesEvents(asked, stamp)

    def error(self, status: int, kind: str, message: str, field: str = "") -> bytes:
        """An error body."""
        return error_body(status, kind, message, field)


__all__ = ["Responses"]
