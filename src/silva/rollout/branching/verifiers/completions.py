"""`completions`: the policy goes on from each candidate's state to the end, and the environment's checker judges.

    candidate ─▶ copy at the ground ─▶ the candidate ─▶ k times: the policy to its end ─▶ evaluate ─▶ mean score

Its scores are of this policy and this checker, and of k draws: with k 4 one candidate's mean is off by up to a quarter
as a rule (see `accuracy`). A completion is on no tree: it is spent on knowing, and its cost is counted.
"""

from __future__ import annotations

import asyncio
from statistics import fmean
from typing import Any

from silva.envs import EnvError
from silva.rollout.acted import Acted
from silva.rollout.branching.probing import Unreached, at_once
from silva.rollout.branching.verifiers.verifier import Candidate, Case, Meter, Ruling
from silva.rollout.ending import Stopped
from silva.rollout.journal import Nowhere
from silva.rollout.live import Live
from silva.rollout.path import Path
from silva.tree import digest


class Completions:
    """Scores by what the policy makes of each candidate.

    Args:
        k: completions of each.
        margin: means that lie no further apart are equal.
        turns: the most turns of a completion; those that the episode has left when left out.
    """

    name = "completions"

    def __init__(self, k: int = 4, margin: float = 0.0, turns: int | None = None) -> None:
        if k < 1 or margin < 0 or (turns is not None and turns < 1):
            raise ValueError("k and turns are at least 1, margin is at least 0")
        self._k = k
        self.margin = margin
        self._turns = turns

    async def judge(self, case: Case) -> Ruling:
        """See `Verifier`. A candidate that ends the episode is judged once; one whose completions nobody could judge
        has no score."""
        meter, faults = Meter(case.bill), list[str]()
        jobs = [
            (place, self._complete(case, candidate, number, meter, faults))
            for place, candidate in enumerate(case.candidates)
            for number in range(1 if candidate.over else self._k)
        ]
        ends = await at_once(job for _, job in jobs)
        found: list[list[float]] = [[] for _ in case.candidates]
        for (place, _), end in zip(jobs, ends, strict=True):
            if end is not None:
                found[place].append(end)
        return Ruling(
            scores=tuple(fmean(each) if each else None for each in found),
            acted=Acted.of("verifier", self.name, meter.usage, model=case.live.config.policy_name),
            facts={
                "completions": len(jobs),
                "steps": meter.steps,
                "unjudged": sum(end is None for end in ends),
                **({"fault": faults[0]} if faults else {}),
            },
        )

    async def _complete(
        self, case: Case, candidate: Candidate, number: int, meter: Meter, faults: list[str]
    ) -> float | None:
        live = case.live
        assert live.another is not None
        async with live.another() as env:
            try:
                return await self._end(case, candidate, number, meter, env)
            except (EnvError, Unreached) as error:
                faults.append(str(error))  # one copy that failed says nothing of the candidate
                return None

    async def _end(self, case: Case, candidate: Candidate, number: int, meter: Meter, env: Any) -> float | None:
        """The checker's score of one completion."""
        live = case.live
        await meter.waited(case.ground.bring(env))
        path = Path(Nowhere(), live.config.run, live.slot.tree_id, live.slot.name, set())
        path.take_up(case.ground.walk)
        path.summaries.update(live.path.summaries)
        tried = Live(live.config, live.slot, path, live.overdrawn)
        tried.env, tried.images, tried.limit = env, dict(live.images), live.limit
        tried.agent = live.agent_for(env)
        # Of its own seed and session: no two completions are one, and none is the episode itself.
        tried.sampling_seed = int(digest(str(case.seed), f"completion {candidate.number} {number}")[:8], 16)
        tried.session = f"{live.session}.{path.turns}.{candidate.number}.{number}"
        path.act(candidate.turn, candidate.started)
        most = live.limit if self._turns is None else min(live.limit, path.turns + self._turns)
        observation = await meter.waited(env.step(candidate.action))
        meter.steps += 1
        while not (observation.done or observation.truncated):
            tried.images.update(observation.blobs)
            path.observe(observation, 0.0)
            if path.turns >= most:
                break
            try:
                turn, started = await tried.ask()
            except Stopped:
                break
            meter.add(turn.usage)
            path.act(turn, started)
            observation = await meter.waited(env.step(turn.message))
            meter.steps += 1
            await asyncio.sleep(0)  # a policy without a model never waits
        return (await meter.waited(env.evaluate())).score
