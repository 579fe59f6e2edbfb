"""A client for any endpoint of the Responses API."""

from __future__ import annotations

from silva.models.client import Client
from silva.models.failure import Failures
from silva.models.gateway.responses.bodies import Bodies
from silva.models.gateway.responses.stream import Assembly
from silva.models.held import Held

_STATUS = {"server_error": 500, "rate_limit_exceeded": 429, "vector_store_timeout": 504}
"""The HTTP status of each code of a reply that failed; of others it is the request that is at fault."""


class ResponsesClient(Client):
    """A model behind an endpoint of the Responses API; the arguments are as in `Client`. `/responses` is appended to
    its url (`https://api.openai.com/v1`)."""

    route = "/responses"

    def _failures(self, key: str | None) -> Failures:
        return Failures(self.endpoint, key, statuses=_STATUS)

    def _writer(self, held: Held | None) -> Bodies:
        return Bodies(self.endpoint)

    def _assembly(self) -> Assembly:
        return Assembly(self.endpoint)
