"""A client for any endpoint of the Anthropic Messages API."""

from __future__ import annotations

from silva.models.anthropic.marks import ANTHROPIC
from silva.models.anthropic.requests import Bodies
from silva.models.anthropic.stream import Assembly
from silva.models.client import Client
from silva.models.failure import Failures
from silva.models.held import Held
from silva.models.model import Request

VERSION = "2023-06-01"

_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The HTTP status of each type of error, for those that come in the midst of a stream."""


class AnthropicClient(Client):
    """A model behind an endpoint of the Messages API; the arguments are as in `Client`. `/messages` is appended to its
    url (`https://api.anthropic.com/v1`), its headers (such as `anthropic-beta`) go over those set here, and its key is
    in `ANTHROPIC_API_KEY` if it names no variable."""

    route = "/messages"
    key_variable = "ANTHROPIC_API_KEY"

    def _failures(self, key: str | None) -> Failures:
        return Failures(self.endpoint, key, "Anthropic", _STATUS)

    def _fixed(self) -> dict[str, str]:
        return {"anthropic-version": VERSION}

    def _writer(self, held: Held | None) -> Bodies:
        return Bodies(self.endpoint)

    def _assembly(self) -> Assembly:
        return Assembly(self.endpoint)

    def _signed(self, key: str) -> dict[str, str]:
        return {"x-api-key": key}

    def _asking(self, request: Request) -> dict[str, str]:
        """The headers of a call: what a client of this API says in its own goes with it, beside what is set here."""
        headers = super()._asking(request)
        if request.dialect != ANTHROPIC or not request.headers:
            return headers
        headers = dict(headers)
        for name, value in request.headers.items():
            headers[name] = f"{headers[name]},{value}" if name in headers else value
        return headers
