"""From a word to a model: `local`, `local:FOLDER`, `vllm:FOLDER`, `scripted:FILE`, `http://host:port/v1#name`,
`openai:NAME`.

async with connect("local") as model:
    completion = await model.complete(Request(messages=(user("hello"),)))
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import msgspec

from silva.errors import UsageError
from silva.models.client import Client
from silva.models.endpoint import Endpoint
from silva.models.local import MODEL, ROWS
from silva.models.local.weights import served_name
from silva.models.model import Model
from silva.models.retry import Retry
from silva.tree import Record

OPENAI = "https://api.openai.com/v1"

KEY_VARIABLE = "SILVA_API_KEY"
"""Where the key of an http(s) endpoint is read from. Not OPENAI_API_KEY: that one is not for strangers."""

SPECS = "local, local:FOLDER, vllm:FOLDER, scripted:FILE, http://HOST:PORT/v1#NAME, openai:NAME"


class Options(Record, frozen=True, kw_only=True):
    """What `connect` may be told besides the spec.

    `retry`: when to try again. `endpoint`: fields of `Endpoint` to set (prices, headers, `token_ids`, `api_key_env`).
    `threads`, `rows`: of the local model. `seed`: of the retries' jitter.
    """

    retry: Retry = Retry()
    endpoint: dict[str, object] = msgspec.field(default_factory=dict[str, object])
    threads: int | None = None
    rows: int = ROWS
    seed: int | None = None


class Served(Record, frozen=True, kw_only=True, gc=True):
    """A model that answers at an endpoint. `kind` is what it speaks (as a gateway's backends name it), `renderer` its
    tokenizer and template where it takes token ids; `stop` ends the process started for it."""

    endpoint: Endpoint
    key: str | None = None
    kind: str = "chat"
    renderer: str = ""
    stop: Callable[[], None] | None = None


class ServedClient(Client):
    """A client whose server was started for it, and is stopped with it."""

    def __init__(self, served: Served, *, retry: Retry, random: Random) -> None:
        super().__init__(served.endpoint, api_key=served.key, retry=retry, random=random)
        self._stop = served.stop

    async def close(self) -> None:
        """Close the connections, then stop the server."""
        await super().close()
        if self._stop is not None:
            stop, self._stop = self._stop, None
            await asyncio.to_thread(stop)


async def open_model(spec: str, **options: object) -> Model:
    """Open the model that `spec` names; the caller closes it. Options are the fields of `Options`.

    Raises:
        UsageError: the spec or an option is not known, or a file it names cannot be used.
        MissingError: a package for the local model is not installed.
        ModelError: the endpoint has to be asked which models it has, and cannot be.
    """
    chosen = _options(options)
    return ServedClient(await serve_spec(spec, **options), retry=chosen.retry, random=Random(chosen.seed))


async def serve_spec(spec: str, **options: object) -> Served:
    """Have the model that `spec` names answer at an endpoint; the caller stops it.

    Raises:
        UsageError, MissingError, ModelError: as `open_model`.
    """
    chosen = _options(options)
    kind, _, rest = spec.partition(":")
    if kind == "local" and (rest or spec == "local"):
        from silva.models.local.shared import started

        weights = Path(rest) if rest else None
        child, stop = await asyncio.to_thread(started, chosen.threads, chosen.rows, weights)
        name = served_name(weights) if weights else MODEL
        endpoint = _endpoint(chosen, url=child.url, model=name, token_ids=True, api_key_env="")
        renderer = str(weights) if weights else "local"
        return Served(endpoint=endpoint, key=child.token, kind="silva", renderer=renderer, stop=stop)
    if kind == "vllm" and rest:
        from silva.models.local.shared import started

        weights = Path(rest)
        child, stop = await asyncio.to_thread(started, None, chosen.rows, weights, "vllm")
        endpoint = _endpoint(chosen, url=child.url, model=served_name(weights), token_ids=True, api_key_env="")
        return Served(endpoint=endpoint, key=child.token, kind="vllm", renderer=str(weights), stop=stop)
    if kind == "scripted" and rest:
        from silva.models.scripted import ScriptedProcess, load_script

        script = load_script(rest)
        server = await asyncio.to_thread(ScriptedProcess(rest).start)  # its work must not be paid by this loop
        endpoint = _endpoint(chosen, url=server.url, model=script.model, token_ids=True, api_key_env="")
        return Served(endpoint=endpoint, key=server.token, stop=server.stop)
    if kind == "openai" and rest:
        endpoint = _endpoint(chosen, url=OPENAI, model=rest, max_tokens_field="max_completion_tokens")
        if endpoint.key() is None:
            raise UsageError(f"model {spec}: put the api key into ${endpoint.api_key_env}")
        return Served(endpoint=endpoint)
    if kind in ("http", "https"):
        return Served(endpoint=await _remote(spec, chosen))
    raise UsageError(f"model {spec!r} is not known; possible are {SPECS}")


def _options(options: dict[str, object]) -> Options:
    try:
        return msgspec.convert(options, Options, from_attributes=True)
    except msgspec.ValidationError as fault:
        raise UsageError(f"model options: {fault}") from fault


@asynccontextmanager
async def connect(spec: str, **options: object) -> AsyncIterator[Model]:
    """Open a model and close it at the end; see `open_model`."""
    model = await open_model(spec, **options)
    try:
        yield model
    finally:
        await model.close()


def _endpoint(options: Options, **fields: object) -> Endpoint:
    try:
        return msgspec.convert({**fields, **options.endpoint}, Endpoint)
    except msgspec.ValidationError as fault:
        raise UsageError(f"model endpoint: {fault}") from fault


async def _remote(spec: str, options: Options) -> Endpoint:
    parts = urlsplit(spec)
    asked = dict(parse_qsl(parts.query))
    token_ids = asked.pop("token_ids", "") in ("1", "true", "yes")
    if asked:
        raise UsageError(f"model url: {next(iter(asked))!r} is not known; possible is ?token_ids=1")
    url = urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
    endpoint = _endpoint(options, url=url, model=parts.fragment, token_ids=token_ids, api_key_env=KEY_VARIABLE)
    if endpoint.model:
        return endpoint
    client = Client(endpoint, retry=options.retry, random=Random(options.seed))
    try:
        names = await client.list_models()
    finally:
        await client.close()
    if len(names) != 1:
        listed = ", ".join(names[:10]) or "none"
        raise UsageError(f"{endpoint.shown} has {len(names)} models ({listed}): write {endpoint.shown}#NAME")
    return msgspec.structs.replace(endpoint, model=names[0])
