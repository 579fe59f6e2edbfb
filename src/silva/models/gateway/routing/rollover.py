"""Changing the policy version behind a route without failing a request: pause, drain, swap, resume.

    serving ── begin ──▶ draining ── nothing in flight ──▶ swapping ── swapped ──▶ serving (new version)
       ▲                    │  drain took too long, `abort`   │
       └────────────────────┴── old version, `error` says ────┴── failed

    pause / resume hold the line by themselves, beside all this.

Specification:
- `admits` is true exactly while serving and not paused. While it is false requests wait; none is refused for it.
- The swap runs only with nothing in flight, so that no reply mixes two versions.
- Whatever goes wrong, the route serves again with the version it had; `error` is the reason, until the next change.
- A drain beyond `drain_seconds` goes on (`wait`, the default) or gives up (`abort`); either way what is in flight ends
  as it would have.
- One change at a time: `begin` and `switch` refuse while another is under way.
- Where backends hold several versions at once, `switch` changes the default in one step and drains nothing: requests
  keep the version they were given, later ones get the new one.
"""

from __future__ import annotations

from typing import Literal

from silva.errors import UsageError

Stage = Literal["serving", "draining", "swapping"]
Step = Literal["wait", "swap", "abort"]


class Rollover:
    """The version of one route and the change under way; every method is told the time.

    Args:
        version: the version to begin with.
    """

    __slots__ = ("_began", "_drain_seconds", "_target", "_when_late", "error", "paused", "stage", "version")

    def __init__(self, version: str = "") -> None:
        self.version = version
        self.stage: Stage = "serving"
        self.paused = False
        self.error = ""
        self._target = ""
        self._began = 0.0
        self._drain_seconds: float | None = None
        self._when_late: Literal["wait", "abort"] = "wait"

    @property
    def admits(self) -> bool:
        """Whether requests may be given a backend."""
        return self.stage == "serving" and not self.paused

    @property
    def late_at(self) -> float | None:
        """When the drain under way is given up; None where it never is."""
        if self.stage != "draining" or self._when_late == "wait" or self._drain_seconds is None:
            return None
        return self._began + self._drain_seconds

    def begin(
        self,
        version: str,
        now: float,
        drain_seconds: float | None = None,
        when_late: Literal["wait", "abort"] = "wait",
    ) -> None:
        """Begin a change to `version`: from now on nothing is admitted.

        Args:
            version: what is served once the swap succeeded.
            now: the time.
            drain_seconds: how long the drain may take; None: as long as it takes.
            when_late: what happens then.

        Raises:
            UsageError: another change is under way.
        """
        self._must_serve()
        self.stage, self.error = "draining", ""
        self._target, self._began = version, now
        self._drain_seconds, self._when_late = drain_seconds, when_late

    def step(self, in_flight: int, now: float) -> Step:
        """While draining: what is to be done now. After `swap` the caller swaps, then tells `swapped` or `failed`."""
        if in_flight == 0:
            self.stage = "swapping"
            return "swap"
        late = self.late_at
        if late is None or now < late:
            return "wait"
        self.stage = "serving"
        self.error = f"{in_flight} requests were still in flight after {self._drain_seconds:g} s"
        return "abort"

    def swapped(self) -> None:
        """The swap succeeded: the new version serves."""
        self.version, self.stage = self._target, "serving"

    def failed(self, reason: str) -> None:
        """The change failed or was cancelled: the old version serves on."""
        self.stage, self.error = "serving", reason

    def switch(self, version: str) -> None:
        """Make another version the default at once, draining nothing.

        Raises:
            UsageError: another change is under way.
        """
        self._must_serve()
        self.version, self.error = version, ""

    def _must_serve(self) -> None:
        if self.stage != "serving":
            raise UsageError(f"the route is {self.stage} for version {self._target!r} already: wait for that to end")
