"""A frame: what an intent says of its source, its filters, its bounds and its output.

"deduplicate the failed runs of babyai, at most 200 rows, as parquet to out.parquet"
  ─▶ envs = babyai · conditions = [failed] · count = 200 · form = parquet · name = out.parquet · left: "deduplicate"
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Frame:
    """What was read. `where`: conditions on trajectories, `rows`: conditions on rows; `left`: the words that nobody has
    read; `notes`: what was taken for granted."""

    said: str
    left: str = ""
    quoted: list[str] = field(default_factory=list)
    sql: str = ""
    runs: list[str] = field(default_factory=list)
    envs: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    count: int = 0
    best: bool = False
    drawn: bool = False
    form: str = ""
    tree_form: str = ""
    sample_form: str = ""
    output: str = ""
    seconds: float = 0.0
    usd: float = 0.0
    tokens: int = 0
    memory: int = 0
    shares: dict[str, float] = field(default_factory=dict)
    ratios: list[float] = field(default_factory=list)
    factor: float = 0.0
    margin: float = 0.0
    seed: int | None = None
    risks: list[str] = field(default_factory=list)
    scorers: list[str] = field(default_factory=list)
    into: str = ""
    codes: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def condition(self) -> str:
        """The condition on trajectories, of all that was said."""
        parts = list(self.where)
        if self.envs:
            parts.insert(0, among("env", self.envs))
        return " and ".join(parts)


def among(column: str, values: list[str]) -> str:
    said = ", ".join("'" + each.replace("'", "''") + "'" for each in values)
    return f"{column} = {said}" if len(values) == 1 else f"{column} in ({said})"
