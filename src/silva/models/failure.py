"""From what an endpoint did wrong to a `ModelError`: its kind, whether to try again, and the provider's own words."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Any

import msgspec

from silva.models.endpoint import Endpoint
from silva.models.errors import ModelError

LONGEST_MESSAGE = 300

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What comes of reading bytes that nobody vouches for: no JSON, bad UTF-8, bottomless nesting."""

TRANSIENT_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
"""409 is a lock that timed out at several providers; 52x are a proxy that lost its origin, 529 is "overloaded"."""

_CONTEXT = re.compile(
    r"context.length|context.window|maximum.context|max_model_len|prompt is too long|too many (input )?tokens", re.I
)
_QUOTA = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.I)
_CREDIT = re.compile(r"credit balance is too low", re.I)
"""Anthropic says so with status 400."""
_NO_ADAPTER = re.compile(r"lora adapters? .{0,300}not loaded", re.I)
"""SGLang says so with status 400."""
_TAGS = re.compile(r"<[^>]*>")


class Failures:
    """Makes the errors of one endpoint, each naming it and none showing its key.

    Args:
        endpoint: where it is.
        key: its key.
        api: what it is asked for, for hints.
        statuses: the HTTP status of each code of an error that comes in a reply of status 200, or in the midst of a
            stream; a code that is none of these may name a status itself.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        key: str | None,
        api: str = "OpenAI-compatible",
        statuses: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._endpoint = endpoint
        self._key = key
        self._api = api
        self._statuses = statuses

    def make(
        self, kind: str, what: str, hint: str = "", *, transient: bool = False, retry_after: float | None = None
    ) -> ModelError:
        """An error whose message is one trimmed line without the key."""
        where = " at ".join(filter(None, (f"model {self._endpoint.model}".rstrip(), self._endpoint.shown)))
        text = f"{where}: {self.trimmed(what)}" + (f"; {hint}" if hint else "")
        return ModelError(kind, text, transient=transient, retry_after=retry_after)

    def _key_hint(self) -> str:
        variable = self._endpoint.api_key_env
        return f"check the key in ${variable}" if variable else "check the key"

    def trimmed(self, text: str) -> str:
        """The text as one line of bounded length, the api key blotted out."""
        line = " ".join(text.split())
        if self._key:
            line = line.replace(self._key, "***")
        return line if len(line) <= LONGEST_MESSAGE else line[: LONGEST_MESSAGE - 1] + "…"

    def of_status(self, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
        """The error for a reply that is not 200, from its status, headers and body."""
        message, code = provider_message(body)
        return self.of_code(status, message, code, retry_after(headers))

    def of_code(self, status: int, message: str, code: str = "", retry_after: float | None = None) -> ModelError:
        """The error for an HTTP status and the provider's message and code."""
        what = f"HTTP {status}: {message}" if message else f"HTTP {status}"
        if status in (400, 413, 422, 500) and (_CONTEXT.search(code) or _CONTEXT.search(message)):
            return self.make("context_length", what, "shorten the conversation or use a model of longer context")
        if status in (401, 403):
            return self.make("auth", what, self._key_hint())
        if status == 404 or (status == 400 and (code == "model_not_found" or _NO_ADAPTER.search(message))):
            return self.make("missing", what, "check the url and the model name")
        spent = _QUOTA.search(code) or _QUOTA.search(message) if status == 429 else _CREDIT.search(message)
        if status == 402 or (status in (400, 429) and spent):
            return self.make("quota", what, "pay for more, or use another key")
        if status == 429:
            return self.make("rate_limit", what, "lower --pool or wait", transient=True, retry_after=retry_after)
        if status >= 500:
            transient = status in TRANSIENT_STATUS
            return self.make("server", what, "look at the server's log", transient=transient, retry_after=retry_after)
        if status in TRANSIENT_STATUS:
            return self.make("refused", what, "try again later", transient=True, retry_after=retry_after)
        return self.make("refused", what, "correct the request or the model's settings")

    def reported(self, value: Any) -> ModelError:
        """The error for one that the server put into a reply of status 200."""
        message, code = error_message(value)
        is_status = len(code) == 3 and code.isascii() and code.isdigit() and code[0] in "45"
        return self.of_code(int(code) if is_status else self._statuses.get(code, 400), message, code)

    def garbage(self, what: str, body: bytes, *, transient: bool = False) -> ModelError:
        """The error for a reply that cannot be understood, with the start of what came."""
        start = " ".join(_TAGS.sub(" ", body[:400].decode("utf-8", "replace")).split())[:120]
        shown = f"{what} (it begins: {start!r})" if start else f"{what} (it is empty)"
        return self.make("garbage", shown, f"is this an {self._api} endpoint?", transient=transient)

    def timeout(self, seconds: float) -> ModelError:
        """The error for a deadline that passed."""
        return self.make("timeout", f"no reply within {seconds:.3g} s", "raise the deadline", transient=True)


def provider_message(body: bytes) -> tuple[str, str]:
    """The provider's message and code from an error body of any of the usual shapes; plain text is taken as it is."""
    try:
        value: Any = msgspec.json.decode(body)
    except UNREADABLE:
        return " ".join(_TAGS.sub(" ", body[:2000].decode("utf-8", "replace")).split()), ""
    return error_message(value.get("error", value) if isinstance(value, dict) else value)


def error_message(value: Any) -> tuple[str, str]:
    """Message and code of a decoded `error` value: an object, a string, or FastAPI's `detail`."""
    try:
        return _message_of(value)
    except RecursionError:
        return "an error that is nested too deeply to be told", ""


def _message_of(value: Any) -> tuple[str, str]:
    if not isinstance(value, dict):
        return str(value), ""
    for name in ("message", "detail", "error", "error_message", "msg"):
        if value.get(name):
            found = value[name]
            text = found if isinstance(found, str) else msgspec.json.encode(found).decode()
            return text, str(value.get("code") or value.get("type") or "")
    return msgspec.json.encode(value).decode(), str(value.get("code") or "")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the server asks to wait (`Retry-After` as seconds or date, `retry-after-ms`), or None."""
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return _bounded(float(milliseconds) / 1000)
        value = headers.get("Retry-After")
        if not value:
            return None
        if re.fullmatch(r"\s*\d+(\.\d+)?\s*", value):
            return _bounded(float(value))
        return _bounded(parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):  # a header nobody can read is no header
        return None


def _bounded(seconds: float) -> float | None:
    """A wait as it can be told on; None where it is no number or for ever."""
    return max(0.0, seconds) if math.isfinite(seconds) else None
