"""A client for any endpoint of the Anthropic Messages API."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from silva.models.anthropic.marks import ANTHROPIC
from silva.models.anthropic.replies import decode_reply
from silva.models.anthropic.requests import Bodies
from silva.models.anthropic.stream import Assembly
from silva.models.client import Client
from silva.models.endpoint import Endpoint
from silva.models.errors import ModelError
from silva.models.failure import Failures, error_message
from silva.models.model import Completion, Request
from silva.models.retry import Retry

VERSION = "2023-06-01"

KEY_VARIABLE = "ANTHROPIC_API_KEY"
"""Where the key is read from, unless the endpoint names another variable."""

_OPENAI_KEY = "OPENAI_API_KEY"

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


class AnthropicFailures(Failures):
    """Makes the errors of one endpoint."""

    def garbage(self, what: str, body: bytes, *, transient: bool = False) -> ModelError:
        """The error for a reply that cannot be understood, with the start of what came."""
        error = super().garbage(what, body, transient=transient)
        text = str(error).replace("is this an OpenAI-compatible endpoint?", "is this an Anthropic endpoint?")
        return ModelError(error.kind, text, transient=error.transient)

    def reported(self, value: Any) -> ModelError:
        """The error for one that the server put into a reply of status 200; its type says which status it is."""
        message, code = error_message(value)
        return self.of_code(_STATUS.get(code, 400), message, code)


class AnthropicClient(Client):
    """A model behind an endpoint of the Messages API. Use it within one event loop; `close` it at the end.

    Args:
        endpoint: where and which model; `/messages` is appended to its url (`https://api.anthropic.com/v1`). Its
            `extra` is merged into every body, its headers (such as `anthropic-beta`) go over those set here.
        api_key: the key; None reads the endpoint's environment variable, `ANTHROPIC_API_KEY` if it names none.
        retry: when to try again.
        random: source of the jitter, for tests.

    Raises:
        UsageError: the endpoint's url cannot be used.
    """

    route = "/messages"

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        api_key: str | None = None,
        retry: Retry | None = None,
        random: Random | None = None,
    ) -> None:
        if endpoint.api_key_env == _OPENAI_KEY:  # the record's default: another provider's key
            endpoint = msgspec.structs.replace(endpoint, api_key_env=KEY_VARIABLE)
        super().__init__(endpoint, api_key=api_key, retry=retry, random=random)
        key = api_key or endpoint.key()
        self.failures = AnthropicFailures(self.endpoint, key)
        self._headers = {"Content-Type": "application/json", "anthropic-version": VERSION, **endpoint.headers}
        if key:
            self._headers["x-api-key"] = key
        self._bodies = Bodies(self.endpoint)

    def _asking(self, request: Request) -> dict[str, str]:
        """The headers of a call: what a client of this API says in its own goes with it, beside what is set here."""
        headers = super()._asking(request)
        if request.dialect != ANTHROPIC or not request.headers:
            return headers
        headers = dict(headers)
        for name, value in request.headers.items():
            headers[name] = f"{headers[name]},{value}" if name in headers else value
        return headers

    def _assembly(self) -> Assembly:  # pyright: ignore[reportIncompatibleMethodOverride]
        """What puts the pieces of a stream together; signed thinking ends in a `SignedDelta`."""
        return Assembly(self.endpoint)

    def _read(self, data: bytes, seconds: float, tried: int, waited: float) -> Completion:
        """A whole reply, read."""
        return decode_reply(data, self.endpoint, seconds, tried, waited)
