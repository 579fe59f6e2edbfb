"""Where a scripted person stands: in the rollout's own process, or beside it.

in it       ScriptedMailroom: shown each walk before each turn; what it says is heard at once, the same in every run
beside it   speak: follows the lake of a run that somebody else plays, as a person at a console would
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from silva.errors import StoreError, UsageError
from silva.guide.mailbox import Mailbox
from silva.guide.mailroom import Mailroom, folder_of
from silva.guide.word import Word
from silva.lake import Lake
from silva.loops.apollo.person import ScriptedPerson
from silva.loops.apollo.script import ScriptedRules
from silva.tree import Author, Node, trajectory_id, tree_id

OVER = ("finished", "stopped")
"""What the record of a run says that nobody plays."""


class ScriptedMailroom(Mailroom):
    """A mailroom in which a scripted person is at hand; see `silva.rollout.watching.Watching`."""

    _person: ScriptedPerson | None = None

    @classmethod
    def scripted(cls, script: ScriptedRules, lake: str, run_id: str, *, resume: bool = False) -> ScriptedMailroom:
        """The mailroom of a run that is about to begin, or to go on, with a person in it."""
        made = cls.of(lake, run_id, resume=resume)
        assert isinstance(made, ScriptedMailroom)
        made._person = ScriptedPerson(script, made.mailbox, _in_this_loop)
        return made

    def watch(self, trajectory_id: str, task_id: str, walk: Sequence[Node]) -> None:
        """Let the person see the walk and speak."""
        if self._person is not None:
            self._person.watch(trajectory_id, walk)


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
        UsageError: the run does not begin in time.
        StoreError: the lake cannot be read, or a word cannot be kept.
    """
    until = time.monotonic() + patience
    due: list[tuple[float, Callable[[], None]]] = []
    mailbox = Mailbox(folder_of(lake), run_id)
    person = ScriptedPerson(script, mailbox, lambda seconds, call: due.append((time.monotonic() + seconds, call)))
    begun: dict[str, str] = {}
    known: dict[str, Node] = {}
    count = 0
    while True:
        status = _look(lake, run_id, begun, known)
        if status is None and time.monotonic() > until:
            raise UsageError(
                f"run {run_id} has not begun within {patience:g} s in lake {lake}; name the run and its lake"
            )
        try:
            for each in [each for each in due if each[0] <= time.monotonic()]:
                due.remove(each)
                each[1]()
            for to, walk in _walks(run_id, begun, known):
                for said in person.watch(to, walk):
                    count += 1
                    heard(said)
        except UsageError:
            status = _look(lake, run_id, begun, known)
            if status not in OVER:
                raise
        if status in OVER:
            return count
        time.sleep(every)


def _look(lake: str, run_id: str, begun: dict[str, str], known: dict[str, Node]) -> str | None:
    """Read what is new; the run's status, None before it began."""
    try:
        opened = Lake.open(lake, mode="read")
    except StoreError:
        if begun:
            raise
        return None  # nobody has made it yet
    with opened:
        run = opened.run(run_id)
        if run is None:
            return None
        begun.update({tree_id(run_id, task.id): task.id for task in opened.tasks()})
        known.update({node.id: node for node in opened.nodes(run_id=run_id)})
        return run.status


def _walks(run_id: str, begun: dict[str, str], known: dict[str, Node]) -> list[tuple[str, list[Node]]]:
    """The walk of each attempt as far as it is kept, by its trajectory's id."""
    ends: dict[tuple[str, str], Node] = {}
    for node in known.values():
        place = (node.tree_id, node.slot)
        if not node.slot or node.author is Author.SUMMARISER or node.tree_id not in begun:
            continue
        if place not in ends or node.depth > ends[place].depth:
            ends[place] = node
    walks: list[tuple[str, list[Node]]] = []
    for (tree, slot), end in sorted(ends.items()):
        index, _, attempt = slot.partition(".")
        walk = [end]
        while (parent := walk[-1].parent_id) is not None and parent in known:
            walk.append(known[parent])
        walks.append((trajectory_id(run_id, begun[tree], int(index), int(attempt or 0)), walk[::-1]))
    return walks
