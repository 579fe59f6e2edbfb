"""The instances of one environment class, and how a request becomes a reply.

    Request ─▶ Instances.handle ─▶ reset | step | evaluate | expert | null | create | close | tasks ─▶ Reply
                                   snapshot | restore | plant | goals | achieved | task | actions

Used inside a host process and, unchanged, for `mode="inline"`. Every way an environment can misbehave short of killing
its process ends here as a `Fault`. A class with `threaded = True` gets a thread (and event loop) per instance, so a
slow synchronous simulator does not hold up its neighbours; any other runs on the host's own loop. A class with
`own_random = True` draws from generators of its own alone, and is spared the exchange of the global ones' states.
"""

from __future__ import annotations

import asyncio
import difflib
import inspect
import sys
import traceback
from collections.abc import Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

from silva.envs import state, synthesis
from silva.envs.errors import EnvError
from silva.envs.protocol import (
    Environment,
    Evaluation,
    HasSnapshot,
    Hindsight,
    HoldsPlants,
    ListsActions,
    Observation,
    Planted,
    Synthesis,
    TellsFidelity,
)
from silva.envs.random_state import RandomStates
from silva.envs.wire import Captured, Fault, Hello, Reply, Request
from silva.errors import StoreError, UsageError
from silva.tree import Json, Message, Task

MOST_TASKS = 100_000
"""Without a limit, a task list longer than this is taken to be endless."""

PAGE = 256
"""Tasks per reply, so that a long list needs no giant frame."""


class _Thread:
    """One thread with an event loop of its own, for one instance."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "environment")
        self._runner = asyncio.Runner()

    async def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._runner.run, work)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, self._runner.close)
        self._executor.shutdown(wait=False)


class Instances:
    """Live instances of `kind`, by number. One request of an instance at a time; instances are independent, down to the
    global random generators (unless `kind` is threaded, or draws from none of them). `shared`: whether others run in
    this process, too."""

    def __init__(self, kind: type[Environment], options: Json | None = None, shared: bool = False) -> None:
        self._kind = kind
        self._random = RandomStates(shared)
        self._options = options or {}
        self._live: dict[int, Environment] = {}
        self._threads: dict[int, _Thread] = {}
        self._pages: dict[tuple[str, int | None, tuple[str, ...]], list[Task]] = {}
        self.threaded: bool = bool(getattr(kind, "threaded", False))
        self._own_random: bool = bool(getattr(kind, "own_random", False))

    def hello(self) -> Hello:
        """What the class declares.

        Raises:
            TypeError: the class declares no `capabilities`.
            UsageError: it is to be made with an option that it does not have.
        """
        _known(self._kind, self._options)
        capabilities = getattr(self._kind, "capabilities", None)
        if capabilities is None:
            raise TypeError(f"{self._kind.__name__} declares no capabilities")
        return Hello(
            capabilities,
            hasattr(self._kind, "expert"),
            hasattr(self._kind, "null"),
            synthesis=issubclass(self._kind, Synthesis),
            hindsight=issubclass(self._kind, Hindsight),
            actions=issubclass(self._kind, ListsActions),
            complete=issubclass(self._kind, ListsActions) and getattr(self._kind, "lists_all", True),
        )

    async def handle(self, request: Request) -> Reply:
        """Do what is asked and say how it went; never raises but for cancellation."""
        began = perf_counter()
        try:
            reply = await getattr(self, f"_{request.op}")(request)
        except asyncio.CancelledError:
            raise
        except UsageError as mistake:
            # The caller's mistake where something was asked for by name; in an episode it is the environment's.
            code = "env.raised" if request.op in ("reset", "step", "evaluate", "plant") else "usage"
            reply = Reply(
                request.id, fault=Fault(code, f"{request.op}: {mistake}" if code == "env.raised" else str(mistake))
            )
        except EnvError as error:
            code = error.kind if request.op in ("snapshot", "restore") else "env.raised"
            reply = Reply(request.id, fault=Fault(code, f"{request.op}: {error}"))
        except MemoryError:
            reply = Reply(request.id, fault=Fault("env.memory", f"{request.op}: out of memory"))
        except BaseException as error:  # noqa: BLE001 - third-party code may raise SystemExit or worse; it is recorded
            traceback.print_exc(file=sys.stderr)
            reply = Reply(request.id, fault=Fault("env.raised", f"{request.op}: {describe(error)}"))
        reply.seconds = perf_counter() - began
        return reply

    async def close(self) -> None:
        """Close every instance; one that fails to does not stop the others."""
        for number in list(self._live):
            await self.handle(Request(0, "close", number, 0.0))

    async def _run(self, number: int, work: Coroutine[Any, Any, Any]) -> Any:
        thread = self._threads.get(number)
        if thread is not None:
            return await thread.run(work)
        return await (work if self._own_random else self._random.own(number, work))

    async def _create(self, request: Request) -> Reply:
        async def build() -> Environment:
            return self._kind(**self._options)

        if self.threaded:
            self._threads[request.instance] = _Thread()
        self._live[request.instance] = await self._run(request.instance, build())
        return Reply(request.id)

    async def _reset(self, request: Request) -> Reply:
        assert request.task is not None
        work = self._live[request.instance].reset(request.task.given, request.seed)
        observation = await self._run(request.instance, work)
        return _checked(request, observation, Observation) or Reply(request.id, observation=observation)

    async def _step(self, request: Request) -> Reply:
        async def advance() -> tuple[Any, Any]:
            environment = self._live[request.instance]
            observation = await environment.step(request.action)  # type: ignore[arg-type]
            ended = isinstance(observation, Observation) and (observation.done or observation.truncated)
            return observation, await environment.evaluate() if ended else None

        observation, evaluation = await self._run(request.instance, advance())
        return (
            _checked(request, observation, Observation)
            or (_checked(request, evaluation, Evaluation) if evaluation is not None else None)
            or Reply(request.id, observation=observation, evaluation=evaluation)
        )

    async def _evaluate(self, request: Request) -> Reply:
        evaluation = await self._run(request.instance, self._live[request.instance].evaluate())
        return _checked(request, evaluation, Evaluation) or Reply(request.id, evaluation=evaluation)

    async def _expert(self, request: Request) -> Reply:
        return await self._policy(request)

    async def _null(self, request: Request) -> Reply:
        return await self._policy(request)

    async def _policy(self, request: Request) -> Reply:
        policy = getattr(self._live[request.instance], request.op, None)
        if policy is None:
            raise UsageError(f"{self._kind.__name__} has no {request.op} policy")
        message = await self._run(request.instance, policy())
        return _checked(request, message, Message) or Reply(request.id, message=message)

    async def _snapshot(self, request: Request) -> Reply:
        environment = self._live[request.instance]
        versions = state.versions(type(environment), (request.arguments or {}).get("packages", ()))
        keeps = environment.capabilities.snapshot

        async def keep() -> Captured:
            if isinstance(environment, HasSnapshot):
                kept = str(await environment.snapshot())
                if isinstance(environment, TellsFidelity):
                    fidelity = await environment.fidelity(kept)
                else:
                    fidelity = state.FILES if keeps == "files" else state.EXACT
                return Captured("own", fidelity, id=kept, versions=versions)
            if keeps != "deepcopy":
                raise EnvError("env.snapshot", f"{type(environment).__name__} keeps no state: it is restored by replay")
            return Captured("state", state.EXACT, data=state.pickled(environment), versions=versions)

        return Reply(request.id, captured=await self._run(request.instance, keep()))

    async def _restore(self, request: Request) -> Reply:
        before, captured = self._live[request.instance], request.captured
        assert captured is not None
        state.check(captured.versions, state.versions(type(before), (request.arguments or {}).get("packages", ())))

        async def take_up() -> tuple[Environment, str | None]:
            if captured.kind == "own":
                if not isinstance(before, HasSnapshot):
                    raise EnvError("env.snapshot", f"{type(before).__name__} does not know the snapshot {captured.id}")
                try:
                    notice = await before.restore(captured.id)
                except (UsageError, StoreError) as error:
                    raise EnvError("env.snapshot", str(error)) from error
                return before, notice
            made = state.unpickled(type(before), captured.data)
            await before.close()
            return made, captured.notice

        self._live[request.instance], notice = await self._run(request.instance, take_up())
        return Reply(request.id, notice=notice or "")

    async def _plant(self, request: Request) -> Reply:
        environment, asked = self._live[request.instance], request.arguments or {}
        if not isinstance(environment, HoldsPlants):
            return Reply(request.id, planted=Planted(why=f"{type(environment).__name__} lets nothing be put into it"))
        planted = await self._run(request.instance, environment.plant(asked["surface"], asked["words"]))
        return _checked(request, planted, Planted) or Reply(request.id, planted=planted)

    async def _goals(self, request: Request) -> Reply:
        environment = synthesis.offering(self._live[request.instance], Synthesis)
        found = await self._run(request.instance, environment.goals(synthesis.place(request)))
        return Reply(request.id, goals=synthesis.checked_goals(found))

    async def _achieved(self, request: Request) -> Reply:
        environment = synthesis.offering(self._live[request.instance], Hindsight)
        work = environment.achieved(synthesis.place(request), synthesis.taken(request))
        found = await self._run(request.instance, work)
        return Reply(request.id, achieved=synthesis.checked_achieved(found, len(request.actions or ())))

    async def _task(self, request: Request) -> Reply:
        environment = synthesis.offering(self._live[request.instance], Hindsight)
        work = environment.task(synthesis.place(request), synthesis.wanted(request))
        return Reply(request.id, tasks=[synthesis.checked_task(await self._run(request.instance, work))])

    async def _actions(self, request: Request) -> Reply:
        environment = synthesis.offering(self._live[request.instance], ListsActions)
        found = await self._run(request.instance, environment.actions())
        return Reply(request.id, actions=synthesis.checked_actions(found))

    async def _close(self, request: Request) -> Reply:
        environment = self._live.pop(request.instance, None)
        try:
            if environment is not None:
                await self._run(request.instance, environment.close())
        finally:
            self._random.forget(request.instance)
            thread = self._threads.pop(request.instance, None)
            if thread is not None:
                await thread.close()
        return Reply(request.id)

    async def _tasks(self, request: Request) -> Reply:
        self._random.switch(None)
        arguments = request.arguments or {}
        split, limit, ids = arguments["split"], arguments["limit"], tuple(arguments["ids"] or ())
        page, key = arguments["page"], (split, limit, ids)
        if key not in self._pages:
            self._pages[key] = self._enumerate(split, limit, ids)
        tasks = self._pages[key][page * PAGE : (page + 1) * PAGE]
        more = (page + 1) * PAGE < len(self._pages[key])
        if not more:
            del self._pages[key]
        return Reply(request.id, tasks=tasks, more=more)

    def _enumerate(self, split: str, limit: int | None, ids: tuple[str, ...]) -> list[Task]:
        tasks: Iterable[Task] = self._kind.tasks(split)
        if ids:
            return self._select(tasks, ids)[:limit]
        listed = list(islice(tasks, limit if limit is not None else MOST_TASKS + 1))
        if limit is None and len(listed) > MOST_TASKS:
            raise UsageError(f"split {split!r} has more than {MOST_TASKS} tasks: give a limit")
        for task in listed:
            if not isinstance(task, Task):
                raise TypeError(f"tasks({split!r}) gave a {type(task).__name__}, not a Task")
        return listed

    def _select(self, tasks: Iterable[Task], ids: tuple[str, ...]) -> list[Task]:
        wanted, found, seen = set(ids), {}, []
        for task in islice(tasks, MOST_TASKS):
            if task.id in wanted:
                found[task.id] = task
                if len(found) == len(wanted):
                    break
            seen.append(task.id)
        for name in ids:
            if name not in found:
                near = difflib.get_close_matches(name, seen[:20_000], 3, 0.3) or seen[:3]
                raise UsageError(f"no task {name!r}; near: {', '.join(near) or 'no tasks at all'}")
        return [found[name] for name in ids]


def _known(kind: type[Environment], options: Json) -> None:
    """Refuse options that the class does not take, before anything is made of them."""
    try:
        takes = inspect.signature(kind).parameters.values()
    except ValueError:  # written in C
        return
    if any(each.kind is each.VAR_KEYWORD for each in takes):
        return
    names = [each.name for each in takes if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    unknown = [name for name in options if name not in names]
    if unknown:
        near = difflib.get_close_matches(unknown[0], names, 1)
        meant = f", perhaps {near[0]}" if near else ""
        raise UsageError(f"no option {unknown[0]}{meant}; there are: {', '.join(sorted(names)) or 'none'}")


def _checked(request: Request, value: Any, kind: type) -> Reply | None:
    if isinstance(value, kind):
        return None
    shown = f"{request.op} returned {type(value).__name__}, not {kind.__name__}"
    return Reply(request.id, fault=Fault("env.garbage", shown))


def describe(error: BaseException) -> str:
    """One line: the exception's type and text, and the last place it came from (file name without its folder)."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())[:400]
    return f"{type(error).__name__}{': ' if text else ''}{text}{place}"
