"""Whose ids a run's turns are: which tokens they stand for, where that is known before the run begins.

renderer, or the folder of the model ─▶ digest of its table ─▶ the run's record ─▶ samples ─▶ the policy that is to
                                                                               learn must have the same
"""

from __future__ import annotations

from silva.errors import SilvaError, UsageError
from silva.rollout.config import RolloutConfig

_FOLDERS = ("local:", "vllm:")


def written_with(config: RolloutConfig) -> str:
    """The digest of what the ids of a run's turns stand for; "" where they are an endpoint's, or of several models.

    Raises:
        UsageError: what people take is written in other ids than those the model draws.
    """
    if config.roles:
        return ""
    source, people = config.renderer, config.guidance.renderer
    if config.policy == "model":
        kind = next((kind for kind in _FOLDERS if config.model.startswith(kind)), "")
        source = config.model.removeprefix(kind) if kind or config.model == "local" else ""
    drawn = _digest(source)
    if drawn and people and _digest(people) not in ("", drawn):
        raise UsageError(
            f"guidance.renderer {people}: its ids stand for other tokens than those of {config.policy_name}; name the "
            "folder of the model that plays"
        )
    return drawn or _digest(people)


def _digest(source: str) -> str:
    if not source:
        return ""
    from silva.models.exact.source import source_digest  # tokenizers, which runs without ids need not have

    try:
        return source_digest(source)
    except SilvaError:  # who opens the model or the renderer says what is wrong with it
        return ""
