"""An online run from its configuration: everything opened in the order in which it can be refused cheaply.

output folder held ─▶ algorithm ─▶ buffer ─▶ engine ─▶ publisher ─▶ OnlineRun ─▶ OnlineResult
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from silva.errors import UsageError
from silva.train.algorithms import Algorithm, algorithm
from silva.train.buffer import Buffer, BufferClient, Jobs, Refused
from silva.train.config import BUNDLED
from silva.train.curves import CurveFile, Sink, TerminalCurve
from silva.train.engines.open import open_engine, share_cores
from silva.train.online.config import OnlineConfig
from silva.train.online.limits import open_limits
from silva.train.online.publisher import Publisher
from silva.train.online.run import SAMPLER, OnlineResult, OnlineRun
from silva.train.output import BUFFER, disk_refusals, held, keep_config
from silva.train.trackers import trackers

if TYPE_CHECKING:
    from silva.train.engines.local import LocalEngine
    from silva.train.online.trl_async.engine import TrlEngine


def train_online(
    config: OnlineConfig,
    *,
    resume: bool = False,
    out: TextIO | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> OnlineResult:
    """Grow and train as configured.

    Args:
        config: of the run.
        resume: go on where the last checkpoint, the buffer and the lake are.
        out: where progress is told; None for nowhere.
        stopping: asked between steps; True ends the run after a checkpoint.

    Raises:
        UsageError: the output folder is in use or holds another run, or something configured cannot be used.
        MissingError: a library, environment or model is not installed.
        UnreachableError: the gateway or buffer server cannot be reached.
        StoreError: the disk refused.
    """
    share_cores()
    with held(config.output, resume):
        loss = usable(config)
        return asyncio.run(_online(config, loss, resume, out, stopping))


async def _online(
    config: OnlineConfig, loss: Algorithm, resume: bool, out: TextIO | None, stopping: Callable[[], bool]
) -> OnlineResult:
    async with AsyncExitStack() as stack:
        buffer = await stack.enter_async_context(open_buffer(config, "group" in loss.needs, resume))
        engine = await asyncio.to_thread(open_weights, config, loss)
        stack.callback(engine.close)
        publisher = await open_publisher(config, engine)
        stack.push_async_callback(publisher.close)
        keep_config(config.output, config.model_dump(mode="json", exclude={"data"}))
        if out is not None:
            trained, everything = engine.parameters
            turns = "in turns" if not config.bound else f"side by side, at most {config.bound} versions apart"
            out.write(
                f"{config.run}: {loss.name}, {config.steps} steps of {config.batch} groups of {config.group}, "
                f"{turns}; {trained:,} of {everything:,} parameters\n"
            )

        def sinks(step: int) -> Sequence[Sink]:
            if out is not None and step:
                out.write(f"going on after step {step}\n")
            found: list[Sink] = [CurveFile(config.output, step if step else -1)]
            if out is not None:
                found.append(TerminalCurve(out, config.steps, config.curves.print_every))
            return [*found, *trackers(config)]

        limits = open_limits(config, engine, loss)
        run = OnlineRun(config, engine, loss, buffer, publisher, stopping=stopping, readable=limits.check)
        return await run.run(resume=resume, sinks=sinks)


def usable(config: OnlineConfig) -> Algorithm:
    """The run's algorithm.

    Raises:
        UsageError: it cannot be trained online, or not by the engine, or the groups are too small for it.
        MissingError: torch, or what the engine needs, is not installed.
    """
    loss = algorithm(config.algorithm.name, config.parameters())
    if "pairs" in loss.needs:
        raise UsageError(f"algorithm {loss.name}: pairs cannot be trained online; take grpo, opd or sft")
    if "group" in loss.needs and config.group < 2:
        raise UsageError(f"group: {loss.name} compares attempts at one task; say at least 2, not {config.group}")
    if config.engine == "trl-async":
        from silva.train.online.trl_async.settings import refuse, require_trl

        refuse(config, loss)
        require_trl()
    return loss


def open_weights(config: OnlineConfig, loss: Algorithm) -> LocalEngine | TrlEngine:
    """What trains: the local engine, or TRL's trainer.

    Raises:
        MissingError: a library or the bundled model is not installed.
        UsageError: the policy cannot be used.
    """
    if config.engine == "local":
        return open_engine(config)
    import torch

    from silva.train.online.trl_async.engine import TrlEngine

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    return TrlEngine(config, loss)


@asynccontextmanager
async def open_buffer(config: OnlineConfig, rewards: bool, resume: bool = False) -> AsyncIterator[Buffer]:
    """The run's job: in the output folder, or of a server. `rewards`: every sample must have one. `resume`: it may
    hold groups; those of a job that a run begins with would be another run's.

    Raises:
        UsageError: no token for the server, or the job there was opened by other terms, or is in use.
        Refused: the job in the folder was, or the token is wrong.
        StoreError: the folder is held by another process.
    """
    at = config.buffer
    if not at.url:
        async with Jobs(config.output / BUFFER) as jobs:
            yield jobs.open(at.job, config.terms(rewards))
        return
    token = os.environ.get(at.token_env, "")
    if not token:
        raise UsageError(f"buffer: the token of job {at.job} is not in ${at.token_env}: set it")
    async with BufferClient(at.url, at.job, token) as client:
        try:
            status = await client.status()
        except Refused as refused:
            if refused.kind != "auth":
                raise
            raise Refused(
                "auth",
                f"buffer job {at.job}: its server does not take the token in ${at.token_env}; "
                f"`silva train buffer --job {at.job}` prints the job's",
            ) from refused
        for name, wanted, there in (
            ("bound", config.bound, status.bound),
            ("groups_per_step", config.batch, status.groups_per_step),
        ):
            if wanted != there:
                raise UsageError(f"buffer job {at.job}: was opened with {name}={there}, this run needs {wanted}")
        if not resume and (status.entered or status.in_flight or status.version):
            raise UsageError(
                f"buffer job {at.job}: another run uses it (version {status.version}, {status.entered} groups are in); "
                "a new run needs a new job"
            )
        yield client


async def open_publisher(config: OnlineConfig, engine: LocalEngine | TrlEngine) -> Publisher:
    """Who serves the policy: the gateway that is named, or a server of the run's own.

    Raises:
        MissingError, UsageError, UnreachableError: it cannot be had.
    """
    if config.gateway is not None:
        from silva.train.online.gateway import GatewayPublisher

        bundled = config.policy.scratch is None and config.policy.weights == BUNDLED
        lake, start = config.rollout.lake, None
        if config.policy.start is not None:
            start = _first(engine, config.output / SAMPLER / "step-000000")
        return await GatewayPublisher.open(config.run, config.gateway, lake, engine.folder, bundled, start)
    if config.policy.scratch is not None:
        raise UsageError("policy.scratch: a server needs a folder to begin with; make one with `silva models tiny`")
    weights = config.policy.weights
    if config.policy.method == "lora":
        from silva.train.online.own_server import OwnServer
        from silva.train.online.vllm_server import VllmServer

        kind = VllmServer if config.serve.engine == "vllm" else OwnServer
        server = await kind.start(config.run, weights, config.output / SAMPLER, config.serve)
        if config.policy.start is None:
            return server
        await server.publish(_first(engine, config.output / SAMPLER / "step-000000"), 0)
        return server
    from silva.train.online.whole_server import WholeServer

    return await WholeServer.start(config.run, weights, config.serve)


def _first(engine: LocalEngine | TrlEngine, folder: Path) -> Path:
    """The adapter a run goes on from, where its server can load it."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    with disk_refusals("the adapter to begin with"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        return engine.save_weights_for_sampler(folder)


def plan(config: OnlineConfig) -> dict[str, Any]:
    """What a run would do: nothing is grown, no weights are loaded.

    Raises:
        UsageError: the algorithm cannot be used.
        MissingError: torch is not installed.
    """
    share_cores()
    loss = usable(config)
    return {
        "run": config.run,
        "algorithm": loss.name,
        "engine": config.engine,
        "mode": config.mode,
        "bound": config.bound,
        "steps": config.steps,
        "groups": config.steps * config.batch,
        "trajectories": config.steps * config.batch * config.group,
        "pool": config.rollout.pool,
        "under_way_at_most": (config.bound + 1) * config.batch * config.group,
        "served_by": "a gateway" if config.gateway is not None else "a server of its own",
        "buffer": "a server" if config.buffer.url else "in process",
    }
