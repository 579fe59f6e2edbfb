"""Desktop: the environment. One turn is the assistant's actions, carried out one after another on its desktop.

    reset(task) ─▶ World.begin ─▶ wish, tools, the screen ─▶ step: each action, then a look ─▶ … ─▶ done ─▶ checkers

Options: `observation` (screenshot, a11y_tree or screenshot_a11y_tree, as OSWorld names them), `width` and `height` of
the screen in pixels, `shrink` (2: screenshots of half the size), `code_seconds` (how long a piece of code may take),
`pause` (seconds of stillness that end the wait after an action), `snapshots` (where checkpoints are kept), and
`processes` (whether snapshots hold what runs, so that windows are what they were; needs CRIU and root).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from silva.envs.gyms.desktop import packages
from silva.envs.gyms.desktop.actions import ENDINGS, TOOLS, Action, Mistake, checked, spoken
from silva.envs.gyms.desktop.display import DesktopGone, Reply
from silva.envs.gyms.desktop.moves import Move
from silva.envs.gyms.desktop.planting import planted
from silva.envs.gyms.desktop.seeing import MOST_ELEMENTS, OBSERVATIONS
from silva.envs.gyms.desktop.showing import Shown, answers, crashes, rules, shown
from silva.envs.gyms.desktop.task import DesktopTask
from silva.envs.gyms.desktop.tasks import TASKS
from silva.envs.gyms.desktop.world import State, World, state_at
from silva.envs.gyms.terminal.backend import borrow, fidelity_of, give_back, must_keep_processes
from silva.envs.home import home
from silva.envs.protocol import Capabilities, Evaluation, Observation, Planted
from silva.errors import SilvaError, StoreError, UsageError
from silva.tree import Message, Risk, Task, assistant, call, system

NAME = "desktop"
MOST_CALLS = 50
"""Actions of one turn; more are refused."""
_MOST_SETTLE = 3.0
_TREE_SECONDS = 8.0
_EXPERT_SECONDS = 45.0


class Desktop:
    """A desktop in a sandbox; one task at a time."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        tools=True, images=True, snapshot="files", deterministic=False, parallel=8, max_turns=50
    )

    def __init__(
        self,
        *,
        observation: str = "screenshot_a11y_tree",
        width: int = 1280,
        height: int = 720,
        shrink: int = 1,
        code_seconds: float = 20.0,
        pause: float = 0.25,
        snapshots: str = "",
        processes: bool = False,
    ) -> None:
        if observation not in OBSERVATIONS:
            raise UsageError(f"option observation: {observation!r} is none of {', '.join(OBSERVATIONS)}")
        _between("width", width, 640, 3840)
        _between("height", height, 480, 2160)
        _between("shrink", shrink, 1, 8)
        _between("code_seconds", code_seconds, 0.1, 30)
        _between("pause", pause, 0, 5)
        packages.check()
        self._every = shrink if "screenshot" in observation else 0
        self._elements = MOST_ELEMENTS if "a11y_tree" in observation else 0
        self._size = int(width), int(height)
        self._code_seconds = code_seconds
        self._pause = pause
        self._processes = processes
        self._snapshots = Path(snapshots).expanduser().absolute() if snapshots else home() / "snapshots" / NAME
        self._world: World | None = None
        self._backend: Any = None

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        """The twelve tasks. Raises UsageError: no such split."""
        if split != "test":
            raise UsageError(f"no split {split!r}; there is test")
        for found in TASKS.values():
            kind = "safety" if found.watched else "capability"
            yield Task(id=f"{NAME}/{found.name}", env=NAME, instruction=found.wish, tags=(kind, *found.tags))

    async def reset(self, task: Task, seed: int) -> Observation:
        """A new desktop with the task's applications open; nothing in it is drawn at random.

        Raises:
            UsageError: there is no such task.
            MissingError: there can be no sandbox here, or what runs cannot be kept and is to be.
            DesktopGone: the desktop, or an application, does not come up.
        """
        await self._leave()
        found = _find(task.id)
        backend = await self._ground()
        self._world = await World.begin(found, backend, *self._size, processes=self._processes)
        self._begin(State(task=found.name))
        first = self._shown(await self._look(), found.wish)
        return Observation(
            messages=(system(rules(*self._size, self._every)), Message(role="user", parts=first.parts())),
            tools=TOOLS,
            blobs=first.blobs,
            attributes={"sandbox": self._world.display.sandbox.id},
        )

    async def step(self, action: Message) -> Observation:
        """Carry out the actions; `done`, `fail`, and words without any end the episode."""
        self._state = msgspec.structs.replace(self._state, turns=self._state.turns + 1)
        self._follow(action)
        try:
            said, over = await self._carried_out(action)
            if over and not said:
                return Observation(done=True, risks=await self._new_risks())
            look = None if over else await self._look()
        except DesktopGone as gone:
            return await self._fallen(action, gone)
        risks = await self._new_risks()
        last = None if look is None else self._shown(look)
        blobs = {} if last is None else last.blobs
        return Observation(messages=answers(action, said, last), done=over, risks=risks, blobs=blobs)

    async def evaluate(self) -> Evaluation:
        """1 where the checker finds it done; `safety`: 0 where a risk came about, None for tasks without one."""
        world = self._here
        try:
            good = await world.task.done(world.evidence())
            await self._new_risks()
        except SilvaError:  # the sandbox has ended, and with it what could have been judged
            good = False
        count = len(self._state.risks)
        safety = float(not count) if world.task.watched else None
        return Evaluation(score=float(good), success=good, safety=safety, metrics={"risks": float(count)})

    async def expert(self) -> Message:
        """The expert's next move, as soon as what it needs is in sight."""
        moves = self._here.task.moves
        if self._anew and await self._is_done():
            return assistant("", call("done", {}))
        if self._played >= len(moves):
            return assistant("", call("done", {}))
        move = moves[self._played]
        self._awaited = await self._found(move)
        return self._awaited

    async def null(self) -> Message:
        """Give up."""
        return assistant("", call("fail", {}))

    async def plant(self, surface: str, words: str) -> Planted:
        """Put words before the agent's eyes, into the clipboard, or into a file's name."""
        return await planted(self._here.display, surface, words, text=bool(self._elements))

    async def snapshot(self) -> str:
        """Keep the files and what the sites were asked, for good, and with `processes` what runs; the id to come back.

        Raises:
            UsageError: no task is being played.
            DesktopGone: the desktop has ended by it.
        """
        return await self._here.keep(msgspec.structs.replace(self._state, played=self._played))

    async def restore(self, snapshot: str) -> str:
        """Make everything what it was at a snapshot. Where it does not hold what ran, files and sites are what they
        were, applications start anew, and what is returned says so.

        Raises:
            UsageError: the snapshot is gone or damaged, or not of this gym; what is played now is left as it is.
        """
        backend = await self._ground()
        state = await asyncio.to_thread(state_at, backend, snapshot)
        found = _find(state.task)
        try:
            world = await World.begin(found, backend, *self._size, at=snapshot, state=state, processes=self._processes)
        except (StoreError, DesktopGone) as error:
            raise UsageError(str(error)) from error
        if self._world is not None:
            await self._world.end()
        self._world = world
        resumed = world.display.resumed
        self._begin(state, anew=not resumed)
        if resumed:
            self._played = state.played
            return ""
        why = f" ({world.display.lost})" if world.display.lost else ""
        return f"[the desktop was started anew{why}: files are as they were, windows as at the beginning of the task]"

    async def fidelity(self, snapshot: str) -> str:
        """What coming back to a snapshot brings back: exact where it holds what ran."""
        return await fidelity_of(await self._ground(), snapshot)

    async def close(self) -> None:
        """End the desktop; snapshots stay."""
        await self._leave()
        if self._backend is not None:
            self._backend = None
            await give_back("namespaces", self._snapshots, self)

    @property
    def _here(self) -> World:
        if self._world is None:
            raise UsageError("desktop: no task is being played: call reset first")
        return self._world

    async def _ground(self) -> Any:
        if self._backend is None:
            self._backend = await borrow("namespaces", self._snapshots, self)
        if self._processes:
            await must_keep_processes(NAME, self._backend)
        return self._backend

    async def _leave(self) -> None:
        world, self._world = self._world, None
        if world is not None:
            await world.end()

    def _begin(self, state: State, anew: bool = False) -> None:
        self._state = state
        self._anew = anew
        self._played = 0
        self._awaited: Message | None = None

    async def _look(self) -> Reply:
        look = await self._here.display.ask(
            "look",
            still=self._pause,
            most=_MOST_SETTLE if self._pause else 0.0,
            every=self._every,
            elements=self._elements,
            seconds=_TREE_SECONDS,
        )
        if look.error:
            raise DesktopGone(f"the screen cannot be looked at: {look.error}")
        return look

    def _shown(self, look: Reply, *before: str) -> Shown:
        display = self._here.display
        notes = [note for note in (*before, *crashes(display.ended)) if note]
        display.ended.clear()
        return shown(look, notes, bool(self._elements))

    async def _carried_out(self, action: Message) -> tuple[list[str], bool]:
        """What there is to say of each action, and whether the episode is over. Raises DesktopGone."""
        said: list[str] = []
        over = False
        if not action.tool_calls:
            try:
                found = spoken(action.text, *self._size)
            except Mistake as mistake:
                return [f"error: {mistake}"], False
            if not found:
                return [], True
            for each in found:
                said.append("error: the task has ended" if over else await self._do(each))
                over = over or each.name in ENDINGS
            return said, over
        for number, made in enumerate(action.tool_calls):
            if over or number >= MOST_CALLS:
                said.append("error: the task has ended" if over else f"error: a turn has at most {MOST_CALLS} actions")
                continue
            try:
                each = checked(made.name or "", made.parsed(), *self._size)
                said.append(await self._do(each))
                over = each.name in ENDINGS
            except ValueError as error:
                said.append(f"error: {error}")
        return said, over

    async def _do(self, action: Action) -> str:
        display = self._here.display
        if action.name in ENDINGS:
            return "The task has ended."
        if action.name == "wait":
            await asyncio.sleep(action.arguments.get("seconds", 1.0))
            return "waited"
        if action.name == "pyautogui":
            seconds = self._code_seconds
            reply = await display.ask("code", within=seconds + 20, code=action.arguments["code"], seconds=seconds)
            printed = reply.output.strip()
            if reply.late:
                return f"error: the code ran longer than {seconds:g} s and was ended\n{printed}".rstrip()
            return f"error: {printed or f'exit code {reply.exit}'}" if reply.exit else printed or "done"
        reply = await display.ask("act", name=action.name, arguments=action.arguments)
        return f"error: {action.name}: {reply.error}" if reply.error else "done"

    async def _fallen(self, action: Message, gone: DesktopGone) -> Observation:
        """The desktop has ended under the agent's hands: so has the episode, and what was saved is judged."""
        said = [f"error: {gone}"] * max(1, len(action.tool_calls))
        risks = await self._new_risks()
        return Observation(messages=answers(action, said), done=True, risks=risks, attributes={"ended": str(gone)})

    async def _new_risks(self) -> tuple[Risk, ...]:
        world = self._here
        if world.task.watched:
            with contextlib.suppress(DesktopGone):  # that nobody looks any more is in the evidence
                await world.display.ask("news")
        try:
            found = await world.task.all_risks(world.evidence())
        except SilvaError:  # nothing more can be found out once the sandbox has ended
            return ()
        known = set(self._state.risks)
        new = tuple(each for each in found if f"{each.kind}: {each.evidence}" not in known)
        names = (*self._state.risks, *(f"{each.kind}: {each.evidence}" for each in new))
        self._state = msgspec.structs.replace(self._state, risks=names)
        return new

    async def _is_done(self) -> bool:
        return await self._here.task.done(self._here.evidence())

    def _follow(self, action: Message) -> None:
        awaited, self._awaited = self._awaited, None
        if awaited is not None and [(each.name, each.arguments) for each in action.tool_calls] == [
            (each.name, each.arguments) for each in awaited.tool_calls
        ]:
            self._played += 1

    async def _found(self, move: Move) -> Message:
        deadline = asyncio.get_running_loop().time() + _EXPERT_SECONDS
        needs = move.at is not None or move.when is not None
        while True:
            look = Reply()
            if needs:
                look = await self._here.display.ask(
                    "look", still=0, most=0, every=0, elements=MOST_ELEMENTS, seconds=_TREE_SECONDS
                )
            made = move.call(look)
            if made is not None:
                return assistant("", made)
            if asyncio.get_running_loop().time() > deadline:
                return assistant("", call("fail", {"reason": f"I do not see {move.waits_for}"}))
            await asyncio.sleep(0.15)


def _find(id: str) -> DesktopTask:
    name = id.rpartition("/")[2]
    if name not in TASKS:
        raise UsageError(f"desktop: there is no task {id!r}; there are {', '.join(TASKS)}")
    return TASKS[name]


def _between(name: str, value: float, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise UsageError(f"option {name}: {value!r} is not between {least:g} and {most:g}")
