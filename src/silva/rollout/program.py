"""An agent that is a program: it is started with the model's address in its environment, and its calls are the turns.

    reset ─▶ prompt ─▶ program (in a sandbox; its calls go through the doorway) ─▶ last words ─▶ step ─▶ … ─▶ evaluate

The program is not changed and knows nothing of Silva: it reads `OPENAI_BASE_URL`, `ANTHROPIC_BASE_URL` and their keys,
as the vendors' SDKs do. The prompt stands where its command has `{prompt}`, else it comes on standard input. What it
writes to `$SILVA_ANSWER`, or else to standard output, is its action.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from silva.envs import EnvError
from silva.envs.protocol import Observation
from silva.errors import UsageError
from silva.models.gateway.rollout import Rollout
from silva.models.gateway.session import Session
from silva.redact import redact
from silva.rollout.config import RolloutConfig
from silva.rollout.doorway import Doorway
from silva.rollout.ending import Ended
from silva.rollout.episode import failed
from silva.rollout.mcp_server import needed
from silva.rollout.mcp_server import server as mcp_server
from silva.rollout.program_client import NAME, Client, client_of, written
from silva.rollout.program_client import variables as told_by
from silva.rollout.program_home import ANSWER, HOME, answer, cleared, laid
from silva.rollout.program_sandbox import Unstartable, executed, found, seen, spec_of
from silva.rollout.program_stages import AroundProgram
from silva.rollout.served_tools import INSTRUCTIONS, ServedTools
from silva.rollout.slots import Slot
from silva.tree import Boundary, Failure, Json, Outcome, Record, Status, Trajectory, assistant, trajectory_id

UNASKED = (
    "the program never asked for the tools that it is served: it has no client of MCP, or its client was not told of "
    "$SILVA_MCP_URL (program.client names the files of its configuration)"
)
TAIL = 2000
"""Characters of its output that stand on the trajectory."""


class Done(Record, frozen=True, kw_only=True):
    """How a program ended."""

    code: int
    output: str
    complaint: str
    answer: str
    level: str


class ProgramEpisode:
    """One attempt of one slot by a program."""

    def __init__(
        self, config: RolloutConfig, slot: Slot, doorway: Doorway, overdrawn: Callable[[], Failure | None]
    ) -> None:
        self._config = config
        self._slot = slot
        self._doorway = doorway
        self._overdrawn = overdrawn
        self._ended: Done | None = None
        self._around: AroundProgram | None = None

    async def run(self, lease: Any) -> Trajectory:
        """Play the episode in the environment that `lease` gives; what the program said to its model is in the lake."""
        started = time.time()
        rollout, variables = self._doorway.enter(self._slot, self._config.budget)
        try:
            try:
                async with asyncio.timeout(self._config.deadlines.episode), lease as env:
                    outcome = await self._play(env, rollout, variables)
            except TimeoutError:
                seconds = self._config.deadlines.episode
                outcome = failed(Boundary.BUDGET, "budget.episode_time", f"episode took longer than {seconds:g} s")
            except Ended as stopped:
                outcome = Outcome(status=Status.FAILED, failure=stopped.failure)
            except EnvError as error:
                outcome = Outcome(status=Status.FAILED, failure=error.failure())
            except Unstartable as unstartable:
                outcome = Outcome(status=Status.FAILED, failure=unstartable.failure)
            failure = outcome.failure
            session = await self._doorway.session(rollout)
            return session.trajectory(
                outcome,
                started_at=started,
                attributes={"rollout": rollout.name, "leaves": session.leaves, **self._facts(), **self._told()},
                superseded=bool(failure and failure.retryable and self._slot.attempt < self._config.retries),
            )
        finally:
            self._doorway.leave(rollout)

    async def _play(self, env: Any, rollout: Rollout, variables: dict[str, str]) -> Outcome:
        spent = self._overdrawn()
        if spent is not None:
            return Outcome(status=Status.FAILED, failure=spent)
        observation: Observation = await env.reset(self._slot.task, self._slot.seed)
        around = self._around = AroundProgram(self._config, self._slot, env)
        observation = await around.opened(observation)
        client, served = None, around.served
        if served is not None:
            try:
                client = client_of(self._config.command, self._config.program.client)
            except UsageError as error:
                return failed(Boundary.AGENT, "agent.tools", f"{error}: its environment has tools")
        given = observation.attributes.get("workspace")
        own = None if given else tempfile.mkdtemp(prefix="silva-program-")
        folder = Path(str(given or own))
        place = f"{seen(folder, self._config.program.sandbox)}/{HOME}"
        try:
            turn = 0
            async with self._served(served, client, rollout, place) as (files, more):
                while not (observation.done or observation.truncated) and turn < env.capabilities.max_turns:
                    prompt = "\n\n".join(message.text for message in observation.messages)
                    told = {**variables, **more, "SILVA_TURN": str(turn)}
                    ended = self._ended = await self._start(prompt, folder, told, {} if turn else files)
                    if served is not None and served.failure is not None:
                        raise served.failure
                    if ended.code != 0:
                        return _broken(ended, await self._doorway.session(rollout))
                    if served is not None and not served.asked:
                        return failed(Boundary.AGENT, "agent.tools", UNASKED)
                    if served is not None and served.over:
                        observation = served.observation
                        break
                    observation = await around.answered(ended.answer, await env.step(assistant(ended.answer)))
                    turn += 1
            evaluation = await env.evaluate()
            if self._config.stages:
                so_far = (await self._doorway.session(rollout)).trajectory(Outcome(status=Status.COMPLETED))
                evaluation = await around.judged(evaluation, await asyncio.to_thread(self._doorway.walk, so_far))
        finally:
            if own is not None:
                shutil.rmtree(own, ignore_errors=True)
        return Outcome(
            status=Status.TRUNCATED if observation.truncated or not observation.done else Status.COMPLETED,
            score=evaluation.score,
            success=evaluation.success,
            safety=evaluation.safety,
            metrics=evaluation.metrics,
        )

    @asynccontextmanager
    async def _served(
        self, served: ServedTools | None, client: Client | None, rollout: Rollout, home: str
    ) -> AsyncIterator[tuple[dict[str, str], dict[str, str]]]:
        """Serve the episode's tools until the end of the block, where there are any: what is to lie in the program's
        home, and the variables that tell of it."""
        if served is None or client is None:
            yield {}, {}
            return
        needed()
        server = mcp_server(NAME, INSTRUCTIONS, served.tools, served.call)
        async with self._doorway.serving(rollout, server, served.witness) as (url, token):
            yield written(client, url, token), told_by(home, url, token)

    async def _start(self, prompt: str, folder: Path, variables: dict[str, str], files: Mapping[str, str]) -> Done:
        """Run the program once, to its end; `files` are put into its home before.

        Raises:
            Unstartable: it cannot be started.
        """
        settings = self._config.program
        command = self._config.command
        takes_argument = any("{prompt}" in part for part in command)
        place = seen(folder, settings.sandbox)
        try:
            cleared(folder)
            laid(folder, files)
        except OSError as error:
            what = f"what the program left in its home cannot be removed: {error.strerror}"
            raise Unstartable(Failure(boundary=Boundary.AGENT, code="agent.home", message=what)) from error
        program = found(command[0])
        arguments = [part.replace("{prompt}", prompt).replace("{workspace}", place) for part in command[1:]]
        passed = {name: os.environ[name] for name in settings.pass_variables if name in os.environ}
        known = {"PATH": os.environ.get("PATH", os.defpath), "LANG": os.environ.get("LANG", "C.UTF-8")}
        home = f"{place}/{HOME}"
        known |= {"HOME": home, **passed, **variables, **settings.variables, "SILVA_ANSWER": f"{home}/{ANSWER}"}
        spec = spec_of(settings, program, folder, self._doorway.port)
        async with await self._doorway.sandboxes.create(spec) as sandbox:
            given = "" if takes_argument else prompt
            done = await executed(sandbox, [str(program), *arguments], given, known)
        return Done(
            code=done.code,
            output=redact(done.text),
            complaint=redact(done.stderr.decode(errors="replace") + done.reason),
            answer=redact(answer(folder) or done.text.strip()),
            level=settings.sandbox,
        )

    def _told(self) -> Json:
        return {} if self._around is None else self._around.attributes()

    def _facts(self) -> Json:
        ended = self._ended
        if ended is None:
            return {}
        return {
            "exit": ended.code,
            "sandbox": ended.level,
            "output": ended.output[-TAIL:],
            "complaint": ended.complaint[-TAIL:],
        }


def cut_off(config: RolloutConfig, slot: Slot) -> Trajectory:
    """The record of an attempt whose program ended with the run that started it."""
    message = "the run was stopped while the program was at work"
    failure = Failure(boundary=Boundary.INFRASTRUCTURE, code="resume.cut_off", message=message, retryable=True)
    return Trajectory(
        id=trajectory_id(config.run, slot.task.id, slot.index, slot.attempt),
        run_id=config.run,
        tree_id=slot.tree_id,
        task_id=slot.task.id,
        env=slot.env,
        index=slot.index,
        attempt=slot.attempt,
        seed=slot.seed,
        leaf_id=None,
        outcome=Outcome(status=Status.FAILED, failure=failure),
        agent=config.agent,
        superseded=True,
    )


def _broken(ended: Done, session: Session) -> Outcome:
    """A program that ended with an error: the model's fault where that is what it was told last, else its own."""
    problem = session.problem
    if problem is not None and problem.kind in ("upstream", "timeout", "overloaded", "rate_limit"):
        return failed(Boundary.MODEL, f"model.{problem.kind}", str(problem))
    if problem is not None and problem.kind == "budget":
        return failed(Boundary.BUDGET, "budget.gateway", str(problem))
    last = next((line for line in reversed(ended.complaint.splitlines()) if line.strip()), "").strip()
    what = f"the program ended with code {ended.code}" + (f": {last[:300]}" if last else "")
    return failed(Boundary.AGENT, "agent.exit", what)
