"""A kind of loop: a record that says how loops of it are configured, planned, run and told. Nothing derives from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, TypeVar

from silva.loops.kernel.config import LoopConfig
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.shown import Shown
from silva.loops.kernel.stage import Stage
from silva.tree import Json

C = TypeVar("C", bound=LoopConfig)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where a loop stands: `facts` as JSON, and `words`, a line each, that say the same."""

    facts: Json
    words: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Kind(Generic[C]):
    """A kind of loop.

    `name` is what configurations and `silva loop NAME` call it. `config` reads its configurations. `plan` gives the
    stages of one, pure. `stages` names, for each kind of stage, the module whose `run(loop, stage)` does it and gives
    its outputs as JSON; it may be run again after it was killed anywhere. `line` says in a few words what a stage gave;
    `standing` where a loop has come to. `usable` refuses, before a round's first stage, what only a later one would.
    `shown` gives what can be drawn of a loop at any time, also while it runs; its `report.json` is read beside it.
    """

    name: str
    config: type[C]
    plan: Callable[[C], list[Stage]]
    stages: Mapping[str, str]
    line: Callable[[Stage, Json], str]
    standing: Callable[[Loop[C]], Standing]
    usable: Callable[[Loop[C], Stage], None] = lambda loop, stage: None
    shown: Callable[[Loop[C]], Shown] = lambda loop: Shown()

    def open(self, config: C) -> Loop[C]:
        """The loop of a configuration, begun or not.

        Raises:
            StoreError: its ledger is damaged.
        """
        return Loop(config, self.plan(config))

    def run(self, loop: Loop[Any], stage: Stage) -> Json:
        """Run a stage; return its outputs.

        Raises:
            Nothing: there is nothing to go on with in this round.
            SilvaError: something a user can mend.
        """
        if stage == next(each for each in loop.plan if each.round == stage.round):
            self.usable(loop, stage)
        return import_module(self.stages[stage.kind]).run(loop, stage)
