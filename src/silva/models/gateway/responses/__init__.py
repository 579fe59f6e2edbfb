"""Backends that speak the Responses API, and need not speak any other.

    Request ─▶ bodies.Bodies ─▶ POST /responses ─▶ replies.decode_reply ─▶ Completion
                                                └▶ stream.Assembly      ─▶ Delta … Completion

Items are read and written by the dialect that clients of this API are served by (`dialects.responses`); what only this
API says of them stays in the marks it keeps. A whole conversation goes with every call: nothing depends on what the
provider stores.
"""

from silva.models.gateway.responses.client import ResponsesClient

__all__ = ["ResponsesClient"]
