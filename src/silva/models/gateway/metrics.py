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
        self._registry = CollectorRegistry()
        self._refused = Counter("silva_refusals", "Requests refused", ("kind", "dialect"), registry=self._registry)
        self._broken_off = Counter(
            "silva_broken_off", "Turns at which a model did not come to its end", ("model",), registry=self._registry
        )
        self._guessed_tokens = Counter(
            "silva_broken_off_tokens", "Tokens of these, by estimate", ("model", "kind"), registry=self._registry
        )
        self._guessed_usd = Counter(
            "silva_broken_off_cost_dollars", "Cost of these, by estimate", ("model",), registry=self._registry
        )
        self._turns = Counter("silva_turns", "Turns answered", ("model", "dialect"), registry=self._registry)
        self._tokens = Counter("silva_tokens", "Tokens of answered turns", ("model", "kind"), registry=self._registry)
        self._usd = Counter("silva_cost_dollars", "Cost of answered turns", ("model",), registry=self._registry)
        self._seconds = Histogram(
            "silva_turn_seconds", "From request to reply on disk", ("model",), buckets=SECONDS, registry=self._registry
        )
        self._own = Histogram(
            "silva_added_seconds",
            "Of these, what was spent neither in the model nor in line",
            ("model",),
            buckets=OWN_SECONDS,
            registry=self._registry,
        )
        self._registry.register(_Standing(gateway))

    def answered(self, dialect: str, model: str, completion: Completion, seconds: float, waited: float) -> None:
        """A turn was answered in so many seconds, of which it waited some in line."""
        usage = completion.usage
        self._turns.labels(model, dialect).inc()
        self._tokens.labels(model, "prompt").inc(usage.prompt_tokens)
        self._tokens.labels(model, "completion").inc(usage.completion_tokens)
        self._usd.labels(model).inc(usage.usd)
        self._seconds.labels(model).observe(seconds)
        self._own.labels(model).observe(max(0.0, seconds - waited - usage.model_seconds))

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
        waiting = GaugeMetricFamily("silva_waiting", "Requests waiting for a backend", labels=["model"])
        flying = GaugeMetricFamily("silva_in_flight", "Requests at backends", labels=["model"])
        healthy = GaugeMetricFamily("silva_backend_up", "Whether a backend is asked", labels=["model", "backend"])
        limit = GaugeMetricFamily("silva_backend_limit", "Requests it may have in flight", labels=["model", "backend"])
        retries = CounterMetricFamily("silva_retries", "Attempts after a first that failed", labels=["model"])
        no_place = CounterMetricFamily(
            "silva_no_place", "Requests that got no backend, by why", labels=["model", "reason"]
        )
        openings = CounterMetricFamily(
            "silva_breaker_openings", "How often a backend was left alone for failing", labels=["model", "backend"]
        )
        for route in gateway.routes.all:
            shot = route.router.snapshot()
            waiting.add_metric([route.name], shot.waiting)
            flying.add_metric([route.name], shot.in_flight)
            retries.add_metric([route.name], shot.retried)
            for reason, count in shot.refused.items():
                no_place.add_metric([route.name, reason], count)
            for backend in shot.backends:
                up = backend.healthy and not backend.draining and backend.phase != "open"
                healthy.add_metric([route.name, backend.name], float(up))
                limit.add_metric([route.name, backend.name], backend.limit)
                openings.add_metric([route.name, backend.name], backend.openings)
        yield from (waiting, flying, healthy, limit, retries, no_place, openings)
