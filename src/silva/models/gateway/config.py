"""What a gateway is told, typed: where it listens, which models stand behind which names, what a run may take."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SerializeAsAny,
    Tag,
    ValidationError,
    model_validator,
)

from silva.models.endpoint import usd
from silva.tree import Usage


class Section(BaseModel):
    """A part of the configuration: unknown keys are refused, values are fixed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Listen(Section):
    """Where to serve; other addresses than loopback need `admin_token_env`. Port 0 takes a free one.

    `admin_token_env` names the environment variable with the token of the admin routes (without one a token is drawn
    and printed once to standard error).
    """

    host: str = "127.0.0.1"
    port: int = Field(default=8700, ge=0, le=65535)
    admin_token_env: str = ""


class Price(Section):
    """US dollars per million tokens. `cached` is for tokens read from the provider's cache (None: what others cost),
    `written` for those written to it (None: 1.25 times the input, what Anthropic asks for five minutes). A run with a
    budget in dollars may use only models whose price is set, be it to 0."""

    input: float = Field(default=0.0, ge=0)
    output: float = Field(default=0.0, ge=0)
    cached: float | None = Field(default=None, ge=0)
    written: float | None = Field(default=None, ge=0)

    def usd(self, usage: Usage) -> float:
        """What a reply cost."""
        tokens = (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.written_tokens)
        return usd(*tokens, (self.input, self.output, self.cached, self.written))


class StaticBackend(Section):
    """A backend that is there already. `kind`: `chat` (any OpenAI-compatible chat endpoint), `anthropic`, `responses`,
    or one that takes and returns token ids: `vllm`, `sglang`, `silva`. `model` is its own name for the model (default:
    the one clients use). The key is read from `api_key_env`, never written here."""

    provider: Literal["static"] = "static"
    url: str
    kind: Literal["chat", "anthropic", "responses", "vllm", "sglang", "silva"] = "chat"
    model: str = ""
    api_key_env: str = ""
    headers: dict[str, str] = Field(default_factory=dict)
    ids: bool = False
    """Ask a `chat` backend for token ids (vLLM's `return_token_ids`)."""
    max_tokens_field: str = "max_tokens"

    @model_validator(mode="before")
    @classmethod
    def _has_no_weight(cls, given: Any) -> Any:
        if isinstance(given, dict) and "weight" in given:
            raise ValueError("weight is not there any more: take it out, requests go where least is in flight")
        return given


class ProcessBackends(Section):
    """Local processes, started and stopped by load. `command` is started with `{port}` filled in; it must serve `kind`
    on that port of loopback and answer its health path with 200. Idle for `idle` seconds, one is stopped, down to
    `least` (0: scale to zero); one is started when `target` requests per process are waiting or in flight, up to
    `most`."""

    provider: Literal["process"]
    command: tuple[str, ...] = Field(min_length=1)
    kind: Literal["chat", "responses", "vllm", "sglang", "silva"] = "chat"
    model: str = ""
    health: str = "/health"
    least: int = Field(default=0, ge=0)
    most: int = Field(default=1, ge=1)
    target: int = Field(default=8, ge=1)
    idle: float = Field(default=60.0, gt=0)
    start_seconds: float = Field(default=300.0, gt=0)
    variables: dict[str, str] = Field(default_factory=dict)
    token_env: str = "SILVA_CHILD_TOKEN"
    """The variable in which the process finds the token its clients must present."""


class LocalBackends(Section):
    """The bundled model, `silva models serve local`, started and stopped by load like any other local process; or, with
    `weights`, the llama of a folder in Hugging Face form, under the folder's name. The folder is also the route's
    renderer where none is named.

    `engine`: `torch` computes here, `vllm` on a GPU by the vLLM of the interpreter `engine_python` ("": Silva's own).
    """

    provider: Literal["local"]
    least: int = Field(default=0, ge=0)
    most: int = Field(default=1, ge=1)
    target: int = Field(default=32, ge=1)
    idle: float = Field(default=300.0, gt=0)
    threads: int | None = Field(default=None, ge=1)
    weights: Path | None = None
    adapters: Path | None = None
    engine: Literal["torch", "vllm"] = "torch"
    engine_python: str = ""


class PackageBackends(Section):
    """Backends that an installed package brings: a subclass with fields of its own, named by an entry point of the
    group `silva.backends` under the `provider` it answers to. Silva's own is Ray Serve's (`silva.ray`)."""

    provider: str
    kind: Literal["chat", "vllm", "sglang", "silva"] = "chat"
    model: str = ""

    def provided(self, name: str) -> Any:
        """What brings them (a `silva.models.gateway.providers.Provider`), called after `name`."""
        raise NotImplementedError


def _of_package(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    points = {point.name: point for point in metadata.entry_points(group="silva.backends")}
    point = points.get(value["provider"])
    if point is None:
        known = ", ".join(sorted(["static", "process", "local", *points]))
        raise ValueError(f"there is no provider {value['provider']!r}, only {known}")
    try:
        return point.load().model_validate(value)
    except ImportError as fault:
        raise ValueError(f"provider {point.name} ({point.value}) cannot be imported: {fault}") from fault
    except ValidationError as fault:
        first = fault.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from fault


def _provider(value: Any) -> str:
    name = str(value.get("provider", "static")) if isinstance(value, dict) else value.provider
    return name if name in ("static", "process", "local") else "package"


AnyBackend = Annotated[
    Annotated[StaticBackend, Tag("static")]
    | Annotated[ProcessBackends, Tag("process")]
    | Annotated[LocalBackends, Tag("local")]
    | Annotated[SerializeAsAny[PackageBackends], BeforeValidator(_of_package), Tag("package")],
    Discriminator(_provider),
]


class Concurrency(Section):
    """How many requests one backend may have in flight: adapted between `least` and `most` (AIMD), from `start`."""

    start: int = Field(default=32, ge=1)
    least: int = Field(default=1, ge=1)
    most: int = Field(default=1024, ge=1)

    @model_validator(mode="after")
    def _ordered(self) -> Concurrency:
        if not self.least <= self.start <= self.most:
            raise ValueError("concurrency: least <= start <= most must hold")
        return self


class Health(Section):
    """A backend is asked every `every` seconds (its `/models`, or `/health`), and left out after `failures` in a row; a
    circuit breaker opens after `breaker` failed requests in a row and lets one through after `open_seconds`."""

    every: float = Field(default=5.0, gt=0)
    timeout: float = Field(default=2.0, gt=0)
    failures: int = Field(default=2, ge=1)
    breaker: int = Field(default=5, ge=1)
    open_seconds: float = Field(default=5.0, gt=0)


class Route(Section):
    """One model as clients name it. `aliases` are further names; `*` stands for every name nobody else has.

    `renderer` names the folder with tokenizer and chat template that token backends need (`local` for the bundled
    model's, `scripted` for the scripted model's). `version` is the policy version where a backend tells none.
    `attempts` bounds how many backends one request is tried on; `retry_ratio` how many retries there may be per
    request, on average. `silence_seconds` is how long a backend may keep silent before another is tried: until a reply
    in one piece, or between the pieces of a streamed one; None: as long as the `deadline`, which bounds it all.
    """

    backends: tuple[AnyBackend, ...] = Field(min_length=1)
    aliases: tuple[str, ...] = ()
    renderer: str = ""
    template: dict[str, Any] = Field(default_factory=dict)
    """Variables for the chat template, such as `enable_thinking: false`."""
    keep_history: bool = False
    """Never rewrite what the model has seen, also where its template would (earlier thinking stays)."""
    version: str = ""
    price: Price = Price()
    concurrency: Concurrency = Concurrency()
    health: Health = Health()
    deadline: float = Field(default=600.0, gt=0)
    silence_seconds: float | None = Field(default=None, gt=0)
    attempts: int = Field(default=3, ge=1)
    retry_ratio: float = Field(default=0.2, ge=0)


class Budget(Section):
    """What one run may spend in all; None: no bound. A run at its bound gets an error in its own dialect. Calls that
    came to no end count by estimate, and as requests where their client left."""

    usd: float | None = Field(default=None, gt=0)
    tokens: int | None = Field(default=None, gt=0)
    requests: int | None = Field(default=None, gt=0)


class Runs(Section):
    """What every run gets unless it asks for something else when it is opened. `capture`: `strict` refuses a turn
    that cannot be kept, `best_effort` answers it and says so. `hours`: how long a run's token is good. `share`: its
    weight when models are busy."""

    capture: Literal["strict", "best_effort"] = "strict"
    hours: float = Field(default=24.0, gt=0)
    share: float = Field(default=1.0, gt=0)
    budget: Budget = Budget()


class Limits(Section):
    """What a stranger may send, and how much may wait. `waiting`: requests waiting for a backend, over all runs;
    `wait_seconds`: how long one may wait before it is told to come again; `conversations_mb`: what conversations take
    in memory, roughly, before unused rollouts and old conversations are let go (the lake has all of them; one that goes
    on is read again). `connections`: how many at once, others are refused; `head_kb`: URL and headers of a request;
    `arrival_seconds`: how long one may make no progress in arriving; `bodies_mb`: what the bodies that come in pieces
    take in memory, all together, until they are read. `values`: how many there may be in the lists and objects of one
    body, where it is a large one; five thousand messages with a call each have half as many."""

    body_mb: float = Field(default=32.0, gt=0)
    bodies_mb: float = Field(default=256.0, gt=0)
    head_kb: float = Field(default=64.0, ge=1)
    arrival_seconds: float = Field(default=60.0, gt=0)
    values: int = Field(default=100_000, ge=1)
    messages: int = Field(default=5000, ge=1)
    tools: int = Field(default=512, ge=1)
    waiting: int = Field(default=4096, ge=0)
    wait_seconds: float = Field(default=60.0, gt=0)
    connections: int = Field(default=4096, ge=1)
    conversations_mb: float = Field(default=256.0, ge=1)


class Spans(Section):
    """OpenTelemetry GenAI spans, sent to `endpoint` (OTLP over HTTP, such as http://127.0.0.1:4318); "" sends none.
    `content` includes the messages."""

    endpoint: str = ""
    content: bool = False


class GatewayConfig(Section):
    """A gateway."""

    lake: str = "lake"
    listen: Listen = Listen()
    models: dict[str, Route] = Field(default_factory=dict)
    runs: Runs = Runs()
    limits: Limits = Limits()
    spans: Spans = Spans()

    @model_validator(mode="after")
    def _names_are_one(self) -> GatewayConfig:
        seen: dict[str, str] = {}
        for name, route in self.models.items():
            for known in (name, *route.aliases):
                if known in seen:
                    raise ValueError(f"models: the name {known!r} stands for {seen[known]!r} and for {name!r}")
                seen[known] = name
        return self
