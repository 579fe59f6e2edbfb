"""The rollouts of a run: who has which place, and what of them stands in the lake.

    claim(rollout) ─▶ its trajectory stands in the lake ─▶ its session is let go of: the tree is read again if need be
       └─ issue: its token, good for it alone ─▶ whose(token) ─▶ … ─▶ revoke, once it has ended

What a run knows of each rollout it ever had is a few hundred bytes, so the roster goes when the run is closed: the lake
tells the same. Of a token it knows the digest; so does the trajectory of a rollout that has not ended.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable

from silva.models.gateway.allowance import Allowance
from silva.models.gateway.problem import Problem
from silva.models.gateway.rollout import Rollout, rollout_of
from silva.tree import Json, Trajectory

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""What a run or rollout may be called."""
PREFIX = "sk-silva"
"""How tokens begin: PREFIX.RUN.SECRET."""
TOKEN = "token_sha256"
"""The attribute of an unended trajectory that holds the digest of its rollout's token."""
ROUTES = ("chat", "responses", "messages", "models", "v1")
"""What no rollout may be called: in a URL these say what is asked for."""


class Roster:
    """See the module. `trajectories`: those the lake has; `trees`: those it has and memory may not."""

    def __init__(self, stored: Iterable[Trajectory] = ()) -> None:
        self.trajectories: set[str] = set()
        self.trees: set[str] = set()
        self._names: dict[str, str] = {}
        self._tokens: dict[str, str] = {}
        self._allowances: dict[str, Allowance] = {}
        self._latest: dict[tuple[str, int], int] = {}
        for trajectory in stored:
            self.trajectories.add(trajectory.id)
            self.trees.add(trajectory.tree_id)
            rollout = rollout_of(trajectory)
            self._names[trajectory.id] = name = rollout.name
            self._tried(rollout)
            if known := trajectory.attributes.get(TOKEN):
                self._tokens[str(known)] = name

    def claim(self, rollout: Rollout) -> None:
        """Take in that a rollout has its name and its place.

        Raises:
            Problem: the name cannot be used, or another rollout has the place.
        """
        check_name(rollout.name)
        other = self._names.setdefault(rollout.trajectory_id, rollout.name)
        if other != rollout.name:
            what = f"rollout {other} has the same task, index and attempt"
            raise Problem("conflict", f"{what}: give {rollout.name} another index or attempt", "index")
        self._tried(rollout)

    def _tried(self, rollout: Rollout) -> None:
        place = (rollout.task_id, rollout.index)
        self._latest[place] = max(rollout.attempt, self._latest.get(place, 0))

    def superseded(self, rollout: Rollout) -> bool:
        """Whether a later attempt at its place counts instead of it."""
        return self._latest.get((rollout.task_id, rollout.index), 0) > rollout.attempt

    def bounds(self, rollout: Rollout) -> Allowance:
        """What a rollout may take, for as long as it has not ended; its session may go and come again."""
        return self._allowances.setdefault(rollout.name, Allowance(rollout.most_turns, rollout.most_tokens))

    def ended(self, rollout: str) -> None:
        """A rollout has ended: its token is good no longer."""
        self.revoke(rollout)
        self._allowances.pop(rollout, None)

    def issue(self, run: str, rollout: str) -> str:
        """A token that is good for one rollout alone, in place of the one it had; shown this once."""
        self.revoke(rollout)
        token = new_token(run)
        self._tokens[token_digest(token)] = rollout
        return token

    def whose(self, digest: str) -> str | None:
        """The rollout that a token with this digest is good for; None where it is none of these."""
        return self._tokens.get(digest)

    def revoke(self, rollout: str) -> None:
        """A rollout's token is good no longer."""
        for known in [known for known, name in self._tokens.items() if name == rollout]:
            del self._tokens[known]

    def token_of(self, rollout: str) -> Json:
        """What a rollout's trajectory says of its token until it has ended: the digest, or nothing."""
        return next(({TOKEN: known} for known, name in self._tokens.items() if name == rollout), {})


def new_token(run: str) -> str:
    """A token for a run or one of its rollouts; nobody can guess it."""
    return f"{PREFIX}.{run}.{secrets.token_urlsafe(24)}"


def token_digest(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def check_name(rollout: str) -> None:
    """Return where a rollout may be called so.

    Raises:
        Problem: it may not.
    """
    if not NAME.fullmatch(rollout) or rollout in ROUTES:
        what = f"letters, digits, '.', '_' and '-' only, and none of {', '.join(ROUTES)}"
        raise Problem("malformed", f"rollout name {rollout!r}: {what}", "rollout")


def unannounced(run: str, name: str) -> Rollout:
    """A rollout that nobody announced: a task of its own."""
    return Rollout(run_id=run, name=name, task_id=f"gateway/{name}")
