"""The order of an episode's stages, written down once, and the stages of one episode.

    summary ─▶ watching ─▶ guidance ─▶ those plugged in, as the configuration names them ─▶ snapshots ─▶ approval

It holds at every moment. A summary is made before people are heard, so what they say stays as it was said; what is
forbidden is refused before anything else looks at it; attacks and defences come before a state is kept, which is so the
state that was shown; a person approves what all the others have let pass.

A package registers a stage by an entry point of the group `silva.stages` that names a `Stage` class; a run asks for it
by `stages: {NAME: {options}}`, and the options are what the class is called with.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata

from silva.errors import UsageError
from silva.rollout.config import RolloutConfig
from silva.rollout.guided import Guidance, Guided
from silva.rollout.live import Live
from silva.rollout.stages.approval import Approval, Rule
from silva.rollout.stages.guidance import Words
from silva.rollout.stages.pipeline import Pipeline
from silva.rollout.stages.snapshots import Snapshots
from silva.rollout.stages.stage import Stage
from silva.rollout.stages.summary import Summaries
from silva.rollout.stages.watching import Watchers, Watching

GROUP = "silva.stages"
"""The group of entry points that name stages."""


def pipeline(
    live: Live, guidance: Guidance | None, heard: frozenset[str] = frozenset()
) -> tuple[Pipeline, Guided | None]:
    """The stages of one episode, and its ear where people are heard.

    Args:
        live: the episode.
        guidance: where people are heard.
        heard: ids of words that were heard before a person went back.

    Raises:
        UsageError: a stage that the configuration names is not there, or refuses its options.
    """
    config, path = live.config, live.path
    guided = Guided(guidance, path, config.run, live.slot, heard) if guidance is not None else None
    if guided is not None:
        live.forbids = guided.refusal

    def wanted() -> Iterator[Stage]:
        if config.summary_at is not None:
            yield Summaries(config.summary, config.summary_at, path)
        if guidance is not None and isinstance(guidance, Watching):  # a protocol, which is slow to ask about
            yield Watchers(guidance)
        if guided is not None:
            yield Words(guided)
        yield from plugged_in(config)
        if config.snapshots.wanted:
            yield Snapshots(config.snapshots)
        if guided is not None and config.guidance.wanted:
            yield Approval(Rule(config), guided)

    return Pipeline(list(wanted())), guided


def plugged_in(config: RolloutConfig) -> list[Stage]:
    """New instances of the stages that a configuration names, in its order.

    Raises:
        UsageError: one is not installed, is no `Stage`, or refuses its options.
    """
    if not config.stages:
        return []
    known = _installed(tuple(sys.path))
    return [_made(name, options, known) for name, options in config.stages.items()]


@cache
def _installed(path: tuple[str, ...]) -> dict[str, metadata.EntryPoint]:
    """The stages that packages on this path register, read once: for every episode it would cost more than turns do."""
    return {point.name: point for point in metadata.entry_points(group=GROUP)}


def _made(name: str, options: dict[str, object], known: dict[str, metadata.EntryPoint]) -> Stage:
    if name not in known:
        raise UsageError(f"stages: no stage {name!r} is installed; there are: {', '.join(sorted(known)) or 'none'}")
    try:
        stage = known[name].load()(**options)
    except Exception as error:
        text = " ".join(str(error).split())
        raise UsageError(f"stages: {name} cannot be made of its options: {type(error).__name__}: {text}") from error
    if not isinstance(stage, Stage):
        raise UsageError(f"stages: {name} ({known[name].value}) is no silva.rollout.stages.Stage")
    return stage
