"""Where a scripted person stands: in the rollout's own process, or beside it.

in it       ScriptedMailroom: shown each walk before each turn; what it says is heard at once, the same in every run
beside it   speak: follows the lake of a run that somebody else plays, as a person at a console would
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from silva.errors import StoreError, UsageError
from silva.guide.event import Events, waiting_of
from silva.guide.mailbox import Mailbox
from silva.guide.mailroom import Mailroom, folder_of
from silva.guide.word import Word
from silva.lake import Lake
from silva.lake.run_follower import RunFollower
from silva.loops.apollo.person import ScriptedPerson
from silva.loops.apollo.script import ScriptedRules
from silva.tree import Author, Message, Node, Run, trajectory_at
from silva.tree.role import attempt_of

OVER = ("finished", "stopped")
"""What the record of a run says that nobody plays."""


class ScriptedMailroom(Mailroom):
    """A mailroom in which a scripted person is at hand; see `silva.rollout.stages.watching.Watching`."""

    _person: ScriptedPerson | None = None

    @classmethod
    def scripted(cls, script: ScriptedRules, lake: str, run_id: str, *, resume: bool = False) -> ScriptedMailroom:
        """The mailroom of a run that is about to begin, or to go on, with a person in it."""
        made = cls.of(lake, run_id, resume=resume)
        assert isinstance(made, ScriptedMailroom)
        made._person = ScriptedPerson(script, made.mailbox, _in_this_loop)
        return made

    @property
    def asks(self) -> bool:
        """Whether the person is to be told what the environment's expert would do."""
        return self._person is not None and self._person.asks

    def advise(self, trajectory_id: str, turn: int, action: Message) -> None:
        """Tell the person what the expert would do at a turn that is about to be taken."""
        if self._person is not None:
            self._person.advise(trajectory_id, turn, action)

    def drawn(self, trajectory_id: str, turn: int, action: Message) -> None:
        """Show the person the action that waits."""
        if self._person is not None:
            self._person.drawn(trajectory_id, action)

    def watch(self, trajectory_id: str, task_id: str, walk: Sequence[Node]) -> None:
        """Let the person see the walk and speak. Between two turns, and at the end, all turns of a walk have ended."""
        if self._person is not None:
            self._person.watch(trajectory_id, task_id, walk, ended=True)

    def tell(self, kind: str, **facts: Any) -> None:
        """Tell people what happened; let the person decide where an agent waits."""
        super().tell(kind, **facts)
        if kind == "waiting" and self._person is not None:
            self._person.decide(
                facts["trajectory_id"], facts["turn"], facts["node_id"], facts["action"], facts["reasons"]
            )


def _in_this_loop(seconds: float, call: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(seconds, call)


def speak(
    script: ScriptedRules,
    lake: str,
    run_id: str,
    *,
    every: float = 0.2,
    patience: float = 60.0,
    heard: Callable[[Word], None] = lambda said: None,
) -> int:
    """Watch a run of a lake until it has ended, and speak to it; return how many words were said.

    Args:
        script: what is said, and when.
        lake: the run's; another process writes it.
        run_id: the run.
        every: seconds between two looks.
        patience: seconds to wait for the run to begin.
        heard: told each word once it is said.

    Raises:
        UsageError: the run does not begin in time, or the script asks the environment's expert.
        StoreError: the lake cannot be read, or a word cannot be kept.
    """
    if script.asks:
        raise UsageError(
            "the script has a rule with expert: the environment's expert can be asked only from within the run "
            "(person: in a loop's configuration), not from beside it; leave that rule out"
        )
    until = time.monotonic() + patience
    due: list[tuple[float, Callable[[], None]]] = []
    mailbox = Mailbox(folder_of(lake), run_id)
    person = ScriptedPerson(script, mailbox, lambda seconds, call: due.append((time.monotonic() + seconds, call)))
    events = Events(mailbox.path.parent, run_id)
    count = 0
    with ExitStack() as stack:
        walks: Walks | None = None
        while True:
            began = time.monotonic()
            walks = walks or _walks_of(lake, run_id, stack)
            moved = walks.moved() if walks is not None else []
            run = walks.run if walks is not None else None
            if run is None and began > until:
                raise UsageError(
                    f"run {run_id} has not begun within {patience:g} s in lake {lake}; name the run and its lake"
                )
            said: list[Word] = []
            try:
                for each in [each for each in due if each[0] <= began]:
                    due.remove(each)
                    each[1]()
                for to, task_id, walk in moved:
                    said += person.watch(to, task_id, walk)
                for one in waiting_of(events.read()):
                    said += person.decide(one.trajectory_id, one.turn, one.node_id, one.action, one.reasons)
            except UsageError:
                if walks is not None:
                    walks.moved()
                    run = walks.run
                if run is None or run.status not in OVER:
                    raise
            count += len(said)
            for each in said:
                heard(each)
            if run is not None and run.status in OVER:
                return count
            time.sleep(max(every, 4 * (time.monotonic() - began)))


class Walks:
    """The walks of a run's attempts as they grow.

    Args:
        lake: open to read.
        run_id: the run.
    """

    def __init__(self, lake: Lake, run_id: str) -> None:
        self._run_id = run_id
        self._records = RunFollower(lake, run_id)
        self._nodes: dict[str, Node] = {}
        self._ends: dict[tuple[str, str], Node] = {}

    @property
    def run(self) -> Run | None:
        """The run's record by the last look."""
        return self._records.run

    def moved(self) -> list[tuple[str, str, list[Node]]]:
        """The attempts that grew since the last call: trajectory's id, task's id, walk as far as it is kept.

        Raises:
            StoreError: the lake cannot be read.
        """
        places: set[tuple[str, str]] = set()
        for node in self._records.fresh().nodes:
            self._nodes[node.id] = node
            place = (node.tree_id, node.slot)
            if not node.slot or attempt_of(node.slot) != node.slot or node.author is Author.SUMMARISER:
                continue
            if place not in self._ends or node.depth > self._ends[place].depth:
                self._ends[place] = node
                places.add(place)
        return [self._walk(place) for place in sorted(places) if place[0] in self._records.tasks]

    def _walk(self, place: tuple[str, str]) -> tuple[str, str, list[Node]]:
        task_id = self._records.tasks[place[0]]
        walk = [self._ends[place]]
        while (parent := walk[-1].parent_id) is not None and parent in self._nodes:
            walk.append(self._nodes[parent])
        return trajectory_at(self._run_id, task_id, place[1]), task_id, walk[::-1]


def _walks_of(lake: str, run_id: str, stack: ExitStack) -> Walks | None:
    try:
        return Walks(stack.enter_context(Lake.open(lake, mode="read")), run_id)
    except StoreError:
        return None  # nobody has made it yet
