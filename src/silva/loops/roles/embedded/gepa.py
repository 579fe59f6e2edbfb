"""Evolution by GEPA's search (gepa 0.1.4, MIT): candidates of source, a Pareto frontier over dev tasks, no model.

    frontier ─▶ a parent ─▶ mutation (`silva.loops.roles.embedded.mutating`) ─▶ judged by the loop ─▶ on the frontier?

Which parent is revised is GEPA's choice: one that is best at some dev task, though another be better on the whole. What
it proposes is Silva's mutation, and what is judged once is not judged again, so its calls cost a training each at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import msgspec
from pydantic import Field

from silva.curate.curation.source import Curation
from silva.errors import MissingError, UsageError
from silva.loops.roles.embedded.mutating import MutationOptions, Mutations
from silva.loops.roles.evolver import Evolving, Judge, Revision, Wanted
from silva.rollout.acted import Acted
from silva.rollout.section import Section

PART = "source"


class GepaOptions(MutationOptions):
    """As `mutations`; `tries`: proposals for each revision that is asked for."""

    tries: int = Field(default=2, ge=1, le=20)


class Gepa(Evolving):
    """GEPA's search over sources."""

    name: ClassVar[str] = "gepa"
    summary: ClassVar[str] = "GEPA's search over a Pareto frontier, mutations proposed; no model (pip install gepa)"
    Options: ClassVar[type[Section]] = GepaOptions

    async def revise(self, parent: Curation, wanted: Wanted) -> list[Revision]:
        """See `Evolver`.

        Raises:
            MissingError: gepa is not installed.
            UsageError: there is no judge, or no dev task.
        """
        if wanted.judge is None or not wanted.tasks:
            raise UsageError("evolver gepa: it searches by judging on dev tasks, and was given none")
        try:
            import gepa
        except ImportError as error:
            raise MissingError("evolver gepa needs the package gepa: pip install 'silva[gepa]'") from error
        search = _Search(self.options, wanted, wanted.judge, parent)
        library: Any = gepa
        await asyncio.to_thread(
            library.optimize,
            seed_candidate={PART: parent.source},
            trainset=list(wanted.tasks),
            valset=list(wanted.tasks),
            adapter=search,
            reflection_lm=None,
            custom_candidate_proposer=search.propose,
            reflection_minibatch_size=len(wanted.tasks),
            skip_perfect_score=False,
            acceptance_criterion="improvement_or_equal",
            max_metric_calls=2 * len(wanted.tasks) * (1 + self.options.tries * max(wanted.count, wanted.calls)),
            stop_callbacks=search.over,
            seed=wanted.seed % 2**31,
            logger=search,
        )
        ranked = sorted(search.proposed.values(), key=lambda each: -search.mean(each.curation))
        return [each for each in ranked if each.curation.digest not in wanted.known][: wanted.count]


class _Search:
    """GEPA's adapter, proposer, stopper and logger, in one."""

    propose_new_texts = None

    def __init__(self, options: GepaOptions, wanted: Wanted, judge: Judge, first: Curation) -> None:
        self._options, self._wanted, self._judge, self._first = options, wanted, judge, first
        self._rates: dict[str, dict[str, float]] = {}
        self._asked = 0
        self.proposed: dict[str, Revision] = {}

    def evaluate(self, batch: Sequence[str], candidate: Mapping[str, str], capture_traces: bool = False) -> Any:
        """What a source reaches at dev tasks."""
        from gepa.core.adapter import EvaluationBatch

        reached = self._reached(Curation(source=candidate[PART]))
        scores = [reached.get(task, 0.0) for task in batch]
        return EvaluationBatch(outputs=list(batch), scores=scores, trajectories=list(batch) if capture_traces else None)

    def make_reflective_dataset(self, candidate: Any, batch: Any, parts: Sequence[str]) -> dict[str, list[Any]]:
        """What GEPA would show a model; the failed points are the mutations' own."""
        return {part: [{"Feedback": point.hint} for point in self._wanted.points] or [{}] for part in parts}

    def propose(self, candidate: Mapping[str, str], shown: Any, parts: Sequence[str]) -> dict[str, str]:
        """A mutation of a source that was not judged yet; the source itself where none is known."""
        self._asked += 1
        known = frozenset((*self._wanted.known, *self.proposed, *self._rates))
        wanted = replace(self._wanted, seed=self._wanted.seed + self._asked, known=known, count=1)
        parent = Curation(source=candidate[PART])
        options = MutationOptions.model_validate(self._options.model_dump(exclude={"tries"}))
        made = asyncio.run(Mutations(options).revise(parent, wanted))
        if not made:
            return {PART: parent.source}
        acted = (Acted(role="evolver", by=Gepa.name),)
        self.proposed[made[0].curation.digest] = msgspec.structs.replace(made[0], acted=acted)
        return {PART: made[0].curation.source}

    def over(self, state: Any) -> bool:
        """Whether enough was proposed."""
        return self._asked >= self._options.tries * self._wanted.count

    def mean(self, curation: Curation) -> float:
        """What a judged curation reaches on the whole; below 0 where it was not judged."""
        reached = self._rates.get(curation.digest, {})
        return sum(reached.values()) / len(reached) if reached else -1.0

    def log(self, message: str) -> None:
        """GEPA's own progress; the loop tells its own."""

    def _reached(self, curation: Curation) -> dict[str, float]:
        if curation.digest not in self._rates:
            self._rates[curation.digest] = self._judge(curation)
        return self._rates[curation.digest]
