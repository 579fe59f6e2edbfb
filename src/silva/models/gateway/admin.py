"""The admin routes: open and close runs and rollouts, see what is there, change policy versions.

/admin/runs                              GET, POST
/admin/runs/RUN                          GET
/admin/runs/RUN/close                    POST
/admin/runs/RUN/rollouts                 GET, POST
/admin/runs/RUN/rollouts/ROLLOUT/end     POST
/admin/models                            GET
/admin/models/NAME/pause|drain|resume|swap  POST
"""

from __future__ import annotations

import hmac
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
from pydantic import BaseModel, ValidationError

from silva.models.gateway.admin_bodies import CloseRun, EndRollout, Nothing, OpenRollout, OpenRun, Swap
from silva.models.gateway.gateway import Gateway
from silva.models.gateway.problem import Problem
from silva.models.gateway.rollout import Rollout
from silva.models.gateway.runs import RunAccount
from silva.models.gateway.session import Session
from silva.models.gateway.versions import Swapped, record_of
from silva.models.serving.exchange import Exchange, Refusal
from silva.tree import Boundary, Failure, Json, Outcome, Status

LARGEST = 1 << 20
"""Bytes of an admin body."""

Body = TypeVar("Body", bound=BaseModel)


class Admin:
    """The admin routes of one gateway."""

    def __init__(self, gateway: Gateway, token: str) -> None:
        self._gateway = gateway
        self._token = token

    async def handle(self, exchange: Exchange, path: str) -> None:
        """Answer one admin request."""
        try:
            given = exchange.header(b"authorization").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode("latin-1", "replace"), self._token.encode()):
                raise Problem("auth", "admin routes need the admin token: send it as 'Authorization: Bearer …'")
            parts = [unquote(part) for part in path.removeprefix("/admin/").split("/")]
            status, body = await self._route(exchange, exchange.scope["method"], parts)
            await exchange.send(status, msgspec.json.encode(body))
        except Problem as problem:
            headers = ((b"retry-after", b"%d" % max(1, round(problem.retry_after))),) if problem.retry_after else ()
            error = {"kind": problem.kind, "message": str(problem), "field": problem.field}
            await exchange.send(problem.status, msgspec.json.encode({"error": error}), headers=headers)

    async def _route(self, exchange: Exchange, method: str, parts: list[str]) -> tuple[int, Json]:
        match method, parts:
            case "GET", ["runs"]:
                return 200, {"runs": [_shown(account) for account in self._gateway.accounts.values()]}
            case "POST", ["runs"]:
                return 201, await self._open_run(exchange, await _body(exchange, OpenRun))
            case "GET", ["runs", run]:
                return 200, _shown(await self._gateway.account(run))
            case "POST", ["runs", run, "close"]:
                asked = await _body(exchange, CloseRun)
                return 200, _shown(await self._gateway.close_run(run, asked.status))
            case "GET", ["runs", run, "rollouts"]:
                await self._gateway.account(run)
                at_work = [each for each in self._gateway.sessions if each.rollout.run_id == run]
                return 200, {"rollouts": [_at_work(session) for session in at_work]}
            case "POST", ["runs", run, "rollouts"]:
                return 201, await self._open_rollout(exchange, run, await _body(exchange, OpenRollout))
            case "POST", ["runs", run, "rollouts", rollout, "end"]:
                return 200, await self._end_rollout(run, rollout, await _body(exchange, EndRollout))
            case "GET", ["models"]:
                return 200, {"models": self._gateway.routes.snapshot()}
            case "POST", ["models", name, "swap"]:
                swap = await _body(exchange, Swap)
                return 200, await self._swap(name, swap)
            case "POST", ["models", name, "pause" | "drain" | "resume" as what]:
                await _body(exchange, Nothing)
                route = self._gateway.route(name)
                waiting = getattr(route.router, what)()
                if what == "drain":
                    await waiting
                return 200, route.snapshot()
            case _:
                raise Problem("not_found", f"there is no {method} /admin/{'/'.join(parts)}: see /openapi.json")

    async def _open_run(self, exchange: Exchange, asked: OpenRun) -> Json:
        terms = asked.model_dump(exclude={"run", "again"}, exclude_none=True)
        account, token = await self._gateway.open_run(asked.run, terms, again=asked.again)
        return {**_shown(account), "token": token, **base_urls(origin(exchange), asked.run)}

    async def _open_rollout(self, exchange: Exchange, run: str, asked: OpenRollout) -> Json:
        account = await self._gateway.account(run)
        task = asked.task_id or f"gateway/{asked.rollout}"
        place = asked.model_dump(exclude={"rollout", "task_id"})
        rollout = Rollout(run_id=run, name=asked.rollout, task_id=task, **place)
        session, token = await self._gateway.announce(account, rollout)
        return {**_at_work(session), "token": token, **base_urls(origin(exchange), run, asked.rollout)}

    async def _swap(self, model: str, asked: Swap) -> Json:
        """Serve another policy version; it is noted in the lake."""
        route = self._gateway.route(model)

        async def note(swapped: Swapped, what: str) -> None:
            await self._gateway.keeper.write([record_of(route.name, swapped)], what)

        return await route.swap(asked.version, asked.adapter, asked.drain_seconds, note)

    async def _end_rollout(self, run: str, rollout: str, asked: EndRollout) -> Json:
        failure = None
        if asked.status == "failed":
            boundary = Boundary(asked.boundary)
            failure = Failure(boundary=boundary, code=f"{boundary.value}.failed", message=asked.failure or "it failed")
        told = asked.model_dump(include={"score", "success", "safety", "metrics"})
        outcome = Outcome(status=Status(asked.status), failure=failure, **told)
        account = await self._gateway.account(run)
        trajectory = await self._gateway.end_rollout(account, rollout, outcome, asked.attributes)
        return {"trajectory": trajectory.id, "leaf": trajectory.leaf_id, "turns": trajectory.turns}


def origin(exchange: Exchange) -> str:
    """Where this server is, as the client reached it."""
    host = exchange.header(b"host")
    if not host:
        name, port = exchange.scope["server"]
        host = f"{name}:{port}"
    return f"{exchange.scope.get('scheme', 'http')}://{host}"


def base_urls(where: str, run: str, rollout: str = "") -> Json:
    """What programs are given as base url: OpenAI's SDKs want the `/v1`, Anthropic's add it themselves."""
    base = f"{where}/r/{run}/{rollout}" if rollout else f"{where}/r/{run}"
    return {"base_url": f"{base}/v1", "anthropic_base_url": base}


async def _body(exchange: Exchange, kind: type[Body]) -> Body:
    try:
        data = await exchange.body(LARGEST)
    except Refusal as refusal:
        raise Problem("too_large", str(refusal)) from refusal
    try:
        return kind.model_validate_json(data or b"{}", strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise Problem("malformed", f"{field}: {first['msg']}" if field else str(first["msg"]), field) from error


def _shown(account: RunAccount) -> Json:
    terms: dict[str, Any] = msgspec.to_builtins(account.terms)
    terms.pop("token_sha256")
    return {
        "run": account.id,
        "status": account.run.status,
        "terms": terms,
        "in_flight": account.in_flight,
        "waiting": account.waiting,
        "spent": account.summary(),
    }


def _at_work(session: Session) -> Json:
    rollout = session.rollout
    return {
        "rollout": rollout.name,
        "task_id": rollout.task_id,
        "index": rollout.index,
        "attempt": rollout.attempt,
        "turns": session.turns,
        "trajectory": rollout.trajectory_id,
    }
