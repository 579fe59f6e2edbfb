"""What a gateway tells Prometheus. Names follow Prometheus' own rules: a unit at the end, seconds, `_total` for counts.

No run or rollout is a label: there may be a million of them (their spending is at /admin/runs).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from silva.models.gateway.keeper import Keeper
from silva.models.gateway.routes import Routes
from silva.models.gateway.runs import RunAccount
from silva.models.gateway.session import Session
from silva.models.model import Completion
from silva.tree import Usage

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
OWN_SECONDS = SECONDS[:12]


_OfTurns = tuple[Counter, Counter, Counter, Counter, Histogram, Histogram]
"""What counts the turns of one model in one dialect: turns, tokens of prompt and reply, dollars, seconds in all and
added."""


class Standing(Protocol):
    """What is read off a gateway when somebody asks."""

    keeper: Keeper
    accounts: dict[str, RunAccount]
    routes: Routes

    @property
    def sessions(self) -> list[Session]:
        """The sessions in memory."""
        ...

    @property
    def lost(self) -> int:
        """Turns answered and not kept."""
        ...


class Metrics:
    """Counts and durations of one gateway."""

    def __init__(self, gateway: Standing) -> None:
        registry = self._registry = CollectorRegistry()

        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"silva_{name}", what, labels, registry=registry)

        def seconds(name: str, what: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"silva_{name}_seconds", what, ("model",), buckets=buckets, registry=registry)

        self._refused = counter("refusals", "Requests refused", "kind", "dialect")
        self._broken_off = counter("broken_off", "Turns at which a model did not come to its end", "model")
        self._guessed_tokens = counter("broken_off_tokens", "Tokens of these, by estimate", "model", "kind")
        self._guessed_usd = counter("broken_off_cost_dollars", "Cost of these, by estimate", "model")
        self._turns = counter("turns", "Turns answered", "model", "dialect")
        self._tokens = counter("tokens", "Tokens of answered turns", "model", "kind")
        self._usd = counter("cost_dollars", "Cost of answered turns", "model")
        self._seconds = seconds("turn", "From request to reply on disk", SECONDS)
        self._own = seconds("added", "Of these, what was spent neither in the model nor in line", OWN_SECONDS)
        self._of_turns: dict[tuple[str, str], _OfTurns] = {}
        registry.register(_Standing(gateway))

    def answered(self, dialect: str, model: str, completion: Completion, seconds: float, waited: float) -> None:
        """A turn was answered in so many seconds, of which it waited some in line."""
        bound = self._of_turns.get((model, dialect))
        if bound is None:  # labels are looked up behind a lock each, which every turn would pay for
            bound = self._of_turns[model, dialect] = (
                self._turns.labels(model, dialect),
                self._tokens.labels(model, "prompt"),
                self._tokens.labels(model, "completion"),
                self._usd.labels(model),
                self._seconds.labels(model),
                self._own.labels(model),
            )
        turns, prompt, reply, usd, whole, own = bound
        usage = completion.usage
        turns.inc()
        prompt.inc(usage.prompt_tokens)
        reply.inc(usage.completion_tokens)
        usd.inc(usage.usd)
        whole.observe(seconds)
        own.observe(max(0.0, seconds - waited - usage.model_seconds))

    def broken_off(self, model: str, usage: Usage) -> None:
        """A model was asked and did not come to its end; `usage` is an estimate."""
        self._broken_off.labels(model).inc()
        self._guessed_tokens.labels(model, "prompt").inc(usage.prompt_tokens)
        self._guessed_tokens.labels(model, "completion").inc(usage.completion_tokens)
        self._guessed_usd.labels(model).inc(usage.usd)

    def refused(self, dialect: str, kind: str) -> None:
        """A request was refused."""
        self._refused.labels(kind, dialect).inc()

    def page(self) -> tuple[bytes, str]:
        """The page and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST


class _Standing(Collector):
    """Gauges read off the gateway when somebody asks."""

    def __init__(self, gateway: Standing) -> None:
        self._gateway = gateway

    def collect(self) -> Iterable[Metric]:
        """The gauges."""
        gateway = self._gateway
        yield GaugeMetricFamily("silva_store_writable", "Whether turns can be kept", float(not gateway.keeper.failure))
        yield GaugeMetricFamily(
            "silva_runs_open", "Open runs", sum(not a.run.finished for a in gateway.accounts.values())
        )
        yield GaugeMetricFamily("silva_rollouts_in_memory", "Rollouts in memory", len(gateway.sessions))
        yield GaugeMetricFamily("silva_turns_lost", "Turns answered but not kept (best effort)", gateway.lost)
        of_model, of_backend = ["model"], ["model", "backend"]
        waiting = GaugeMetricFamily("silva_waiting", "Requests waiting for a backend", labels=of_model)
        flying = GaugeMetricFamily("silva_in_flight", "Requests at backends", labels=of_model)
        healthy = GaugeMetricFamily("silva_backend_up", "Whether a backend is asked", labels=of_backend)
        limit = GaugeMetricFamily("silva_backend_limit", "Requests it may have in flight", labels=of_backend)
        retries = CounterMetricFamily("silva_retries", "Attempts after a first that failed", labels=of_model)
        no_place = CounterMetricFamily("silva_no_place", "Requests that got no backend", labels=["model", "reason"])
        openings = CounterMetricFamily(
            "silva_breaker_openings", "How often a backend was left alone for failing", labels=of_backend
        )
        for route in gateway.routes.all:
            shot = route.router.snapshot()
            waiting.add_metric([route.name], shot.waiting)
            flying.add_metric([route.name], shot.in_flight)
            retries.add_metric([route.name], shot.retried)
            for reason, count in shot.refused.items():
                no_place.add_metric([route.name, reason], count)
            for backend in shot.backends:
                place = [route.name, backend.name]
                up = backend.healthy and not backend.draining and backend.phase != "open"
                healthy.add_metric(place, float(up))
                limit.add_metric(place, backend.limit)
                openings.add_metric(place, backend.openings)
        yield from (waiting, flying, healthy, limit, retries, no_place, openings)
