"""What is counted of turns reads as Prometheus' own counters would have had it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from silva.models.gateway.tally import OWN_SECONDS, SECONDS, Tallies
from silva.tree import Usage

MODELS = st.sampled_from(("small", 'lar"ge\n'))
DIALECTS = st.sampled_from(("chat", "responses", "anthropic"))
DURATIONS = st.one_of(st.sampled_from(SECONDS), st.floats(0, 1000))
TURNS = st.tuples(MODELS, DIALECTS, DURATIONS, DURATIONS, st.integers(0, 9), st.integers(0, 9), st.floats(0, 1))


def samples(registry: CollectorRegistry) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(generate_latest(registry).decode())
    found = (sample for family in families for sample in family.samples)
    return {(s.name, frozenset(s.labels.items())): s.value for s in found if not s.name.endswith("_created")}


@given(st.lists(TURNS))
def test_a_tally_says_what_counters_and_histograms_say(
    turns: list[tuple[str, str, float, float, int, int, float]],
) -> None:
    ours, theirs, tallies = CollectorRegistry(), CollectorRegistry(), Tallies()
    ours.register(tallies)
    answered = Counter("silva_turns", "-", ("model", "dialect"), registry=theirs)
    tokens = Counter("silva_tokens", "-", ("model", "kind"), registry=theirs)
    usd = Counter("silva_cost_dollars", "-", ("model",), registry=theirs)
    seconds = Histogram("silva_turn_seconds", "-", ("model",), buckets=SECONDS, registry=theirs)
    own = Histogram("silva_added_seconds", "-", ("model",), buckets=OWN_SECONDS, registry=theirs)
    for model, dialect, took, in_model, asked, said, cost in turns:
        usage = Usage(prompt_tokens=asked, completion_tokens=said, usd=cost, model_seconds=in_model)
        tallies[model, dialect].answered(usage, took, 0.25)
        answered.labels(model, dialect).inc()
        tokens.labels(model, "prompt").inc(asked)
        tokens.labels(model, "completion").inc(said)
        usd.labels(model).inc(cost)
        seconds.labels(model).observe(took)
        own.labels(model).observe(max(0.0, took - 0.25 - in_model))
    found, expected = samples(ours), samples(theirs)
    assert found.keys() == expected.keys()
    assert all(abs(found[name] - value) <= 1e-9 * max(1.0, value) for name, value in expected.items())
