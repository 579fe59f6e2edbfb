"""Candidates: at each of the policy's turns n actions are drawn and tried, a verifier picks, and the best goes on.

    policy's turn ─▶ n - 1 more draws ─▶ those that differ ─▶ each in a copy of its own ─▶ verifier ─▶ the best is taken
                                                                       └▶ the others stand beside it, with their answers

The episode's own environment stands still meanwhile and takes the chosen action as it would any other. What each
candidate was found to be is on its node (`silva.rollout.judged`), how the search went and who chose on the chosen one.
A search that is cut off (the budget is spent, the model is gone) leaves its candidates on the tree without a verdict,
and the episode ends where it stood before.

Step-wise preference with candidates executed at every step is the idea of SPORT (2025, arXiv 2504.21561).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from silva.envs import EnvError, Observation
from silva.models.errors import ModelError
from silva.rollout.acted import Acted, acted, acted_on, in_all
from silva.rollout.agent import Turn
from silva.rollout.branching.probing import Ground, Unreached, at_once
from silva.rollout.branching.told import KEY
from silva.rollout.branching.verifiers.registry import make
from silva.rollout.branching.verifiers.verifier import Bill, Candidate, Case, Meter, Ruling, Verifier
from silva.rollout.judged import CANDIDATE, SEARCH, Searched, Verdict, searched_of
from silva.rollout.live import SEEDS, Live
from silva.rollout.stages.stage import Stage
from silva.tree import NO_USAGE, Author, Message, Node, digest

MOST = 64
"""Candidates of one search."""


class Candidates(Stage):
    """Searches at each turn of one episode.

    Args:
        n: actions drawn at a turn, the policy's own first among them.
        verifier: who picks (`silva.rollout.branching.verifiers`).
        also: verifiers that score, too, and pick nothing: what the first is held against.
        options: each verifier's own, by its name.

    Raises:
        UsageError: a verifier is not installed, or refuses its options.
    """

    name = KEY
    author = Author.VERIFIER

    def __init__(
        self,
        n: int = 4,
        verifier: str = "completions",
        also: Sequence[str] = (),
        options: Mapping[str, dict[str, Any]] | None = None,
    ) -> None:
        if not 1 <= n <= MOST:
            raise ValueError(f"n is from 1 to {MOST}, not {n}")
        options = options or {}
        names = (verifier, *((also,) if isinstance(also, str) else also))
        if unknown := sorted(set(options) - set(names)):
            raise ValueError(f"options are given for {', '.join(unknown)}, which is no verifier of this run")
        self._n = n
        self._verifiers: list[Verifier] = [make(each, options.get(each)) for each in dict.fromkeys(names)]
        self._counts: Counter[str] = Counter()
        self._facts: Counter[str] = Counter()
        self._deeds: list[Acted] = []
        self._ways: set[str] = set()
        self._off = ""

    async def on_action(self, live: Live, turn: Turn) -> Turn:
        """Draw, try, judge; return the best.

        Raises:
            Ended, Stopped, ModelError, EnvError: as a turn of the agent.
        """
        if self._off or self._n == 1 or live.another is None:
            return turn
        bill = Bill(live)
        before = live.path.usage
        drawn: list[Candidate] = []
        try:
            bill.add(turn.usage)
            await self._draw(live, turn, drawn, bill)
            distinct = _distinct(drawn)
            if len(distinct) == 1:
                chosen, searched, rulings = distinct[0], self._found(distinct, drawn), []
            else:
                chosen, searched, rulings = await self._judge(live, distinct, drawn, bill)
        except BaseException:
            for each in _distinct(drawn):
                await self._aside(live, each, Verdict(number=each.number, drawn=each.drawn, cut=True))
            raise
        own = sum((each.turn.usage for each in distinct), NO_USAGE)
        others = sum((each.turn.usage for each in distinct if each is not chosen), NO_USAGE)
        extra = _without(bill.spent, own)
        live.path.usage = before + others + extra  # the chosen one's is counted when it is taken
        for each in distinct:
            if each is not chosen:
                await self._aside(live, each, self._verdict(each, distinct, rulings))
        searched = msgspec.structs.replace(searched, spent=extra)
        verdict = msgspec.structs.replace(self._verdict(chosen, distinct, rulings), chosen=True)
        marks = {CANDIDATE: msgspec.to_builtins(verdict), SEARCH: msgspec.to_builtins(searched)}
        deeds = [ruling.acted for ruling in rulings]
        self._count(searched, deeds)
        said = {**chosen.turn.attributes, **marks, **(acted(*deeds) if deeds else {})}
        return msgspec.structs.replace(chosen.turn, attributes=said)

    async def _draw(self, live: Live, turn: Turn, drawn: list[Candidate], bill: Bill) -> None:
        drawn.append(Candidate(number=0, turn=turn, started=time.time()))

        async def another(number: int) -> None:
            further, started = await live.ask(number)
            bill.add(further.usage)
            drawn.append(Candidate(number=number, turn=further, started=started))

        try:
            await at_once(another(number) for number in range(1, self._n))
        finally:
            drawn.sort(key=lambda each: each.number)

    async def _judge(
        self, live: Live, distinct: list[Candidate], drawn: list[Candidate], bill: Bill
    ) -> tuple[Candidate, Searched, list[Ruling]]:
        meter = Meter(bill)
        ground = await meter.waited(Ground.of(live))
        await at_once(self._try(live, ground, each, meter) for each in distinct)
        tried = [each for each in distinct if each.answer is not None]
        rulings: list[Ruling] = []
        if len(tried) > 1:
            seed = int(digest(str(live.sampling_seed), "search", str(live.path.turns))[:8], 16) % SEEDS
            case = Case(live=live, ground=ground, candidates=tried, seed=seed, bill=bill)
            rulings = [_spread(await _ruled(each, case), distinct) for each in self._verifiers]
        searched = self._found(distinct, drawn, ground, rulings)
        return (distinct[0] if searched.tied else _best(distinct, rulings[0])), searched, rulings

    async def _try(self, live: Live, ground: Ground, candidate: Candidate, meter: Meter) -> None:
        """Take a candidate in a copy of its own. What goes wrong there is the candidate's, not the episode's."""
        if live.forbids(candidate.action) is not None:
            candidate.error = "a person forbids it"
            return
        assert live.another is not None
        async with live.another() as env:
            try:
                await meter.waited(ground.bring(env))
                candidate.answer = await meter.waited(env.step(candidate.action))
            except Unreached as error:
                candidate.error = self._off = str(error)
            except EnvError as error:
                candidate.error = str(error)

    def _found(
        self,
        distinct: list[Candidate],
        drawn: list[Candidate],
        ground: Ground | None = None,
        rulings: Sequence[Ruling] = (),
    ) -> Searched:
        """How a search went; tied where the verifier's scores do not part."""
        scores = [each for each in rulings[0].scores if each is not None] if rulings else []
        gap = max(scores) - min(scores) if scores else 0.0
        steps = sum(int(each.facts.get("steps", 0)) for each in rulings)  # of those that only score, too
        return Searched(
            by=self._verifiers[0].name,
            n=len(drawn),
            distinct=len(distinct),
            tried=sum(each.answer is not None for each in distinct),
            equal=len(distinct) == 1,
            tied=len(distinct) > 1 and (len(scores) < 2 or gap <= self._verifiers[0].margin),
            gap=gap,
            way="" if ground is None else ground.way,
            replayed=0 if ground is None else ground.replayed,
            why=rulings[0].why if rulings else "",
            facts={**rulings[0].facts, **({"steps": steps} if steps else {})} if rulings else {},
        )

    def _verdict(self, candidate: Candidate, distinct: list[Candidate], rulings: Sequence[Ruling]) -> Verdict:
        place = distinct.index(candidate)
        scores = {each.name: ruling.scores[place] for each, ruling in zip(self._verifiers, rulings, strict=False)}
        by = self._verifiers[0].name
        return Verdict(
            number=candidate.number,
            drawn=candidate.drawn,
            by=by,
            score=scores.pop(by, None),
            others=scores,
            error=candidate.error,
            ended=candidate.over,
        )

    async def _aside(self, live: Live, candidate: Candidate, verdict: Verdict) -> None:
        """Keep a candidate that is not taken, with what it was answered."""
        answer = candidate.answer or Observation()
        for data in answer.blobs.values():
            await live.blobs.put_blob(data)
        said = {**candidate.turn.attributes, CANDIDATE: msgspec.to_builtins(verdict)}
        turn = msgspec.structs.replace(candidate.turn, attributes=said)
        live.path.aside(turn, candidate.started, answer)

    def recall(self, live: Live, nodes: Sequence[Node]) -> None:
        """See `Stage`: searches of before are counted as they stand on their nodes."""
        for node in nodes:
            searched = searched_of(node)
            if searched is not None:
                self._count(searched, acted_on(node))

    def _count(self, searched: Searched, deeds: Sequence[Acted]) -> None:
        counted = {
            "searches": 1,
            "drawn": searched.n,
            "distinct": searched.distinct,
            "tried": searched.tried,
            "equal": searched.equal,
            "tied": searched.tied,
            "replayed": searched.replayed * searched.tried,
        }
        self._counts.update({name: int(value) for name, value in counted.items()})
        self._facts.update({name: int(value) for name, value in searched.facts.items() if isinstance(value, int)})
        self._deeds += deeds
        self._ways |= {searched.way} if searched.way else set()

    def attributes(self) -> dict[str, Any]:
        """How the searches of the episode went together, and what each verifier cost."""
        if not self._counts and not self._off:
            return {}
        said: dict[str, Any] = {"by": self._verifiers[0].name, "n": self._n, **self._counts}
        return {
            self.name: {
                **said,
                "ways": sorted(self._ways),
                **({"facts": dict(self._facts)} if self._facts else {}),
                **({"off": self._off} if self._off else {}),
                **acted(*(deed for deed, _ in in_all(self._deeds))),
            }
        }


async def _ruled(verifier: Verifier, case: Case) -> Ruling:
    """What a verifier says; a model that it cannot ask is told as its own."""
    try:
        ruling = await verifier.judge(case)
    except ModelError as error:
        raise ModelError(error.kind, f"verifier {verifier.name}: {error}", transient=error.transient) from error
    if len(ruling.scores) != len(case.candidates):
        raise ValueError(f"verifier {verifier.name} scored {len(ruling.scores)} of {len(case.candidates)} candidates")
    return ruling


def _spread(ruling: Ruling, distinct: list[Candidate]) -> Ruling:
    """A ruling on those that were tried, as one on all."""
    given = iter(ruling.scores)
    return msgspec.structs.replace(ruling, scores=tuple(next(given) if each.answer else None for each in distinct))


def _best(distinct: list[Candidate], ruling: Ruling) -> Candidate:
    """The candidate with the highest score, the first drawn of several."""
    scored = [(score, each) for score, each in zip(ruling.scores, distinct, strict=True) if score is not None]
    return max(scored, key=lambda one: (one[0], -one[1].number))[1]


def _distinct(drawn: Sequence[Candidate]) -> list[Candidate]:
    """Those that differ in what they say and call, each as it was first drawn."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], Candidate] = {}
    for each in drawn:
        known = found.setdefault(_said(each.action), each)
        if known is not each:
            known.drawn += 1
    return list(found.values())


def _said(action: Message) -> tuple[str, tuple[tuple[str, str], ...]]:
    return action.text, tuple((call.name, call.arguments) for call in action.tool_calls)


def _without(whole: Any, part: Any) -> Any:
    """What is left of a sum of usage when a part of it is taken away."""
    names = whole.__struct_fields__
    return type(whole)(**{name: max(0, getattr(whole, name) - getattr(part, name)) for name in names})
