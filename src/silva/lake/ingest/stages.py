"""Stages: what is done to what arrives, by configuration.

    on arrival, before anything is kept      redact
    on a session's records, before they are  tag, and any other that is installed
    on what is in the lake, now and then     embed (passed in by who starts the server: models live above the lake)

A package adds one by an entry point of the group `silva.ingest_stages`: a function that takes the stage's settings and
gives a function from a Bundle to a Bundle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as compute

from silva.errors import UsageError
from silva.lake.entry import Arrival
from silva.lake.ingest.assembling import Stage
from silva.lake.ingest.otlp import scrubbed
from silva.redact import Redactor, redactor
from silva.tree import Trajectory
from silva.tree.formats import Bundle

GROUP = "silva.ingest_stages"
TAGS = "tags"
"""Attribute of a trajectory: the tags it was given."""


class Redact:
    """Takes secrets out of what arrives (see `silva.redact`): keys, tokens, credentials."""

    def __init__(self, own: Redactor | None = None) -> None:
        self._redactor = own or redactor()
        plain = [hint for hint in self._redactor.hints if hint.isascii() and hint.isprintable()]
        self._pattern = "|".join(map(re.escape, plain))
        self._others = [hint.encode() for hint in self._redactor.hints if hint not in plain]

    def arrive(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """The arrivals without secrets; the same objects where they hold none."""
        # One pass over all of them for all the hints: five times as fast as a search for each.
        texts = pa.array([each.data for each in arrivals], pa.large_binary())
        hinted = compute.match_substring_regex(texts, self._pattern).to_pylist()  # pyright: ignore[reportAttributeAccessIssue]
        return [
            self._clean(each) if found or any(other in each.data for other in self._others) else each
            for each, found in zip(arrivals, hinted, strict=True)
        ]

    def _clean(self, arrival: Arrival) -> Arrival:
        if arrival.form in ("otlp", "otlp-logs"):
            data = scrubbed(arrival.form, arrival.data, self._redactor.text)
        else:
            data = msgspec.json.encode(self._redactor.json(msgspec.json.decode(arrival.data)))
        if data == arrival.data:
            return arrival
        return msgspec.structs.replace(arrival, data=data, size=len(data))


def tag(settings: Mapping[str, Any]) -> Stage:
    """Tags trajectories: `name`, and `matches`, a regular expression that a message of theirs must match (none: all).

    Raises:
        UsageError: the settings are others.
    """
    name, matches = settings.get("name"), settings.get("matches", "")
    if not isinstance(name, str) or not name or not isinstance(matches, str) or set(settings) - {"name", "matches"}:
        raise UsageError('stage tag: give {"name": "…", "matches": "…"}')
    try:
        pattern = re.compile(matches, re.IGNORECASE)
    except re.error as error:
        raise UsageError(f"stage tag: matches is no regular expression ({error})") from error

    def tagged(bundle: Bundle) -> Bundle:
        def mark(trajectory: Trajectory) -> Trajectory:
            if not any(pattern.search(node.message.text) for node in bundle.walk(trajectory)):
                return trajectory
            known = trajectory.attributes.get(TAGS)
            tags = sorted({*(known if isinstance(known, list) else []), name})
            return msgspec.structs.replace(trajectory, attributes={**trajectory.attributes, TAGS: tags})

        return msgspec.structs.replace(bundle, trajectories=tuple(map(mark, bundle.trajectories)))

    return tagged


def assembly_stages(chosen: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Stage]:
    """The stages of those names, with their settings.

    Raises:
        UsageError: there is none of that name, or its settings are wrong.
    """
    installed = {each.name: each for each in entry_points(group=GROUP)}
    found: list[Stage] = []
    for name, settings in chosen:
        if name == "tag":
            found.append(tag(settings))
        elif name in installed:
            found.append(installed[name].load()(settings))
        else:
            known = ", ".join(["redact", "tag", "embed", *sorted(installed)])
            raise UsageError(f"stage {name!r} is not known; there are {known}")
    return found
