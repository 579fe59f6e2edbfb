"""A run: one invocation that grew trees, with the lineage that says what made its rows."""

from __future__ import annotations

from typing import Any

import msgspec

from silva.tree.message import Json, Record

TOKENIZER = "tokenizer"
"""The member of a run's summary, and of a sample's attributes, that says by a digest which tokens its ids stand for."""


class Lineage(Record, frozen=True, kw_only=True):
    """What made a row: code version (package version or commit), the config's digest, parent data by name@version."""

    code: str = ""
    config: str = ""
    parents: tuple[str, ...] = ()


class Run(Record, frozen=True, kw_only=True, tag_field="kind", tag="run"):
    """A named run. `id` is the name a person gave; `config` the full configuration, secrets redacted.

    Written at the start (`finished` 0) and again at the end; the later record wins.
    """

    id: str
    command: str = "rollout"
    envs: tuple[str, ...] = ()
    model: str = ""
    agent: str = ""
    seed: int = 0
    config: Json = msgspec.field(default_factory=dict[str, Any])
    lineage: Lineage = Lineage()
    status: str = "running"
    started: float = 0.0
    finished: float = 0.0
    summary: Json = msgspec.field(default_factory=dict[str, Any])
