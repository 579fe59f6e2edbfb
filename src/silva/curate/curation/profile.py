"""The profile of curated data: how much there is, how long it is, how much of it says the same; and what J charges for.

C = tanh(log(1 + turns) / log(1 + reference))        J = P - lambda * C        (CurateEvo, section 4.2)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from silva.curate.curation.corpus import Corpus
from silva.curate.curation.curated import Curated
from silva.tree import Record

REFERENCE = 1e5
"""The paper's N_ref: turns."""
LAMBDA = 0.3


class Spread(Record, frozen=True, kw_only=True):
    """How something is spread over rows: least, quartiles, most, and the sum."""

    least: float
    quarter: float
    middle: float
    three_quarters: float
    most: float
    total: float


class Profile(Record, frozen=True, kw_only=True):
    """What a curation gave of its corpus. `turns` are those kept in rows of sft and of the walks behind rows of rl:
    what
    J charges for; `characters` what actions with loss say; `loss` the turns that are imitated; `redundancy` the share
    of
    sft rows that ask and do what an earlier one does; `walks` of the corpus stand in `kept`; `tools` how many rows call
    each tool."""

    walks: int
    kept: int
    sft: int
    rl: int
    memory: int
    tasks: int
    turns: int
    loss: int
    by_turns: Spread | None
    characters: Spread | None
    redundancy: float
    tools: dict[str, int]

    def __str__(self) -> str:
        spread = f", turns a row {self.by_turns.least:g} to {self.by_turns.most:g}" if self.by_turns else ""
        return (
            f"{self.sft} sft rows of {self.kept} of {self.walks} walks, {self.rl} tasks to practise, {self.memory} "
            "memories; "
            f"{self.turns:,} turns, {self.loss:,} imitated{spread}, {100 * self.redundancy:.0f} % repeated"
        )


def profile(made: Curated, corpus: Corpus) -> Profile:
    """The profile of what a curation gave."""
    walks = {walk["id"]: walk for walk in corpus.walks}
    turns = {key: {turn["n"]: turn for turn in walk["turns"]} for key, walk in walks.items()}
    seen: set[tuple[str, str]] = set()
    tools: dict[str, int] = {}
    repeated = 0
    said: list[int] = []
    for row in made.sft:
        mine = [turns[row.walk][number] for number in row.turns]
        key = (row.words or walks[row.walk]["words"], repr([(turn["says"], turn["calls"]) for turn in mine]))
        repeated += key in seen
        seen.add(key)
        for tool in {call[0] for turn in mine for call in turn["calls"]}:
            tools[tool] = tools.get(tool, 0) + 1
        said.append(sum(len(turns[row.walk][number]["says"]) for number in row.loss))
    practised = [len(turns[row.walk]) if row.walk else 1 for row in made.rl]
    used = {row.walk for row in made.sft} | {row.walk for row in made.rl if row.walk}
    return Profile(
        walks=len(walks),
        kept=len(used),
        sft=len(made.sft),
        rl=len(made.rl),
        memory=len(made.memory),
        tasks=len({walks[key]["task"] for key in used}),
        turns=sum(len(row.turns) for row in made.sft) + sum(practised),
        loss=sum(len(row.loss) for row in made.sft),
        by_turns=_spread([len(row.turns) for row in made.sft]),
        characters=_spread(said),
        redundancy=repeated / len(made.sft) if made.sft else 0.0,
        tools=dict(sorted(tools.items())),
    )


def cost(turns: int, reference: float = REFERENCE) -> float:
    """C of so many training turns, from 0 to below 1."""
    return math.tanh(math.log1p(turns) / math.log1p(reference))


def objective(performance: float, turns: int, weight: float = LAMBDA, reference: float = REFERENCE) -> float:
    """J: performance from 0 to 1, less the cost times its weight."""
    return performance - weight * cost(turns, reference)


def _spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    ordered = sorted(values)
    at = [ordered[round(share * (len(ordered) - 1))] for share in (0, 0.25, 0.5, 0.75, 1)]
    return Spread(least=at[0], quarter=at[1], middle=at[2], three_quarters=at[3], most=at[4], total=float(sum(ordered)))
