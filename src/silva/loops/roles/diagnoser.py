"""The diagnoser: from walks that failed to failed points, which say what a curation should change.

failed walks (as a curation sees walks) + the profile of what was trained on ─▶ Diagnosis: points, who acted
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from silva.curate.curation.profile import Profile
from silva.curate.curation.versions import FailedPoint
from silva.rollout.acted import Acted
from silva.tree import Record

Walk = dict[str, Any]
"""As `silva.curate.curation.corpus.walk_of` makes it: words, success, ended, turns."""


class Diagnosis(Record, frozen=True, kw_only=True):
    """Failed points, the one that most tasks show first, and who found them."""

    points: tuple[FailedPoint, ...]
    acted: tuple[Acted, ...] = ()


class Diagnoser(Protocol):
    """Finds what failed walks have in common."""

    async def diagnose(self, failed: Sequence[Walk], profile: Profile) -> Diagnosis:
        """The failed points of walks.

        Args:
            failed: walks of dev tasks without success.
            profile: of what the policy was trained on.

        Raises:
            RoleError, ModelError: a model that is asked gives no answer.
        """
        ...
