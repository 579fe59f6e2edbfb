"""A client for any endpoint of the Responses API."""

from __future__ import annotations

from random import Random
from typing import Any

from silva.models.client import Client
from silva.models.endpoint import Endpoint
from silva.models.errors import ModelError
from silva.models.failure import Failures, error_message
from silva.models.gateway.responses.bodies import Bodies
from silva.models.gateway.responses.replies import decode_reply
from silva.models.gateway.responses.stream import Assembly
from silva.models.model import Completion
from silva.models.retry import Retry

_STATUS = {"server_error": 500, "rate_limit_exceeded": 429, "vector_store_timeout": 504}
"""The HTTP status of each code of a reply that failed; of others it is the request that is at fault."""


class ResponsesFailures(Failures):
    """Makes the errors of one endpoint."""

    def reported(self, value: Any) -> ModelError:
        """The error for one that the server put into a reply of status 200; its code says which status it is."""
        message, code = error_message(value)
        return self.of_code(_STATUS.get(code, 400), message, code)


class ResponsesClient(Client):
    """A model behind an endpoint of the Responses API. Use it within one event loop; `close` it at the end.

    Args:
        endpoint: where and which model; `/responses` is appended to its url (`https://api.openai.com/v1`).
        api_key: the key; None reads the endpoint's environment variable.
        retry: when to try again.
        random: source of the jitter, for tests.

    Raises:
        UsageError: the endpoint's url cannot be used.
    """

    route = "/responses"

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        api_key: str | None = None,
        retry: Retry | None = None,
        random: Random | None = None,
    ) -> None:
        super().__init__(endpoint, api_key=api_key, retry=retry, random=random)
        self.failures = ResponsesFailures(self.endpoint, api_key or endpoint.key())
        self._bodies = Bodies(self.endpoint)

    def _assembly(self) -> Assembly:  # pyright: ignore[reportIncompatibleMethodOverride]
        """What puts the events of a stream together."""
        return Assembly(self.endpoint)

    def _read(self, data: bytes, seconds: float, tried: int, waited: float) -> Completion:
        """A whole reply, read."""
        return decode_reply(data, self.endpoint, seconds, tried, waited)
