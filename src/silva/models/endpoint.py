"""An endpoint: where a model answers, under which name, with which key, at which price."""

from __future__ import annotations

import os
from urllib.parse import urlsplit, urlunsplit

import msgspec

from silva.errors import UsageError
from silva.tree import Record, Usage

CACHE_WRITE = 1.25
"""What a token written to a provider's cache costs beside a plain one, where no price says otherwise: Anthropic's rate
for five minutes. Providers that charge nothing for it do not count such tokens apart."""

OPENAI_KEY = "OPENAI_API_KEY"


class Endpoint(Record, frozen=True, kw_only=True):
    """One OpenAI-compatible endpoint.

    `url` is the base that `/chat/completions` is appended to (`http://127.0.0.1:8000/v1`). The key is read from the
    environment variable `api_key_env` and never stored. Prices are US dollars per million tokens; None for the price
    of tokens read from the provider's cache means the full input price, of those written to it `CACHE_WRITE` times
    that. `token_ids` asks for the exact ids (vLLM's `return_token_ids`; servers that do not know the field may refuse
    it). `max_tokens_field` is what the server calls the reply's bound. `send_thinking` returns earlier reasoning to the
    server. `extra` is merged into every request's JSON.
    """

    url: str
    model: str
    api_key_env: str = OPENAI_KEY
    headers: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    input_price: float = 0.0
    output_price: float = 0.0
    cached_price: float | None = None
    written_price: float | None = None
    token_ids: bool = False
    max_tokens_field: str = "max_tokens"
    send_thinking: bool = False
    extra: dict[str, object] = msgspec.field(default_factory=dict[str, object])

    def checked(self) -> Endpoint:
        """Return this endpoint with its url in plain form.

        Raises:
            UsageError: the url is not http(s) with a host, or carries a user name or password.
        """
        try:
            parts = urlsplit(self.url)
            port_is_valid = parts.port is None or parts.port > 0
        except ValueError:
            parts, port_is_valid = urlsplit(""), False
        if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_valid:
            raise UsageError(f"model url {self.shown!r} is not usable: write it like http://127.0.0.1:8000/v1")
        if parts.username is not None or parts.password is not None:
            raise UsageError(f"model url {self.shown!r} carries a password: put the key in ${self.api_key_env} instead")
        return msgspec.structs.replace(self, url=urlunsplit(parts._replace(fragment="")).rstrip("/"))

    @property
    def shown(self) -> str:
        """The url as it may be printed: without user, password, query or fragment."""
        try:
            parts = urlsplit(self.url)
        except ValueError:
            return "(not a url)"
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    def key(self) -> str | None:
        """The api key from the environment, or None where the variable is unset or empty."""
        return (os.environ.get(self.api_key_env) or None) if self.api_key_env else None

    def usage(self, prompt: int, sampled: int, cached: int, written: int, seconds: float) -> Usage:
        """What a call of so many tokens took, and of so many seconds."""
        prices = (self.input_price, self.output_price, self.cached_price, self.written_price)
        return Usage(
            prompt_tokens=prompt,
            completion_tokens=sampled,
            cached_tokens=cached,
            written_tokens=written,
            usd=usd(prompt, sampled, cached, written, prices),
            model_seconds=seconds,
        )


def usd(
    prompt: int, sampled: int, cached: int, written: int, prices: tuple[float, float, float | None, float | None]
) -> float:
    """What a call cost in US dollars: of its prompt's tokens some were read from a cache, others written to it.
    `prices` are those of the prompt, of the reply, and of these two; None as in `Endpoint`."""
    plain, reply, reading, writing = prices
    reading = plain if reading is None else reading
    writing = CACHE_WRITE * plain if writing is None else writing
    fresh = max(prompt - cached - written, 0)
    return (fresh * plain + cached * reading + written * writing + sampled * reply) / 1e6
