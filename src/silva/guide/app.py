"""Guidance over plain HTTP, so that a chat tool or a script can be where people speak.

    POST /v1/runs/RUN/words      say something: {"kind": …, "by": …, "to": …, …} as `silva.guide.post` takes it
    GET  /v1/runs/RUN/words      what was said, and what became of each
    GET  /v1/runs/RUN/waiting    whose actions wait for approval
    GET  /v1/runs/RUN/events     what happened since ?after=PLACE; ?wait=SECONDS holds the answer until there is news
    GET  /healthz

Every request shows a token. The server's own may speak as anybody; a token that was given to a person speaks as that
person alone.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, unquote

import msgspec

from silva.errors import SilvaError, StoreError, UsageError
from silva.guide.event import became_of, waiting_of
from silva.guide.pace import Pace
from silva.guide.post import events, post, words
from silva.guide.problem import Problem
from silva.guide.word import word
from silva.lake import Lake
from silva.models.serving.exchange import Exchange, Receive, Refusal, Scope, Send

log = logging.getLogger(__name__)

LARGEST = 2 * 1024 * 1024
"""Bytes of a request's body: what is longer than a word may be, by mistake, is still told so in words."""

LONGEST_WAIT = 30.0
RATE, BURST = 20.0, 100
"""Requests a second that one token may make in the long run, and at once."""

_BODY_SECONDS = 20.0
_LOOK = 0.2


class Speech(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a POST of words."""

    kind: str
    by: str = ""
    to: str = "*"
    text: str = ""
    why: str = ""
    turn: int = 0
    pattern: str = ""
    action: str | dict[str, object] | list[object] = ""
    node: str = ""
    id: str = ""


class GuideApp:
    """The ASGI application.

    Args:
        lake: where it is.
        token: the server's own.
        people: tokens of people, by name.
        started: called when it serves; stopped: when it ends.
        burst: requests that one token may make at once.
        clock: seconds, for the pace of each token.
    """

    def __init__(
        self,
        lake: str,
        token: str,
        people: Mapping[str, str] | None = None,
        *,
        started: Callable[[], None] = lambda: None,
        stopped: Callable[[], None] = lambda: None,
        burst: int = BURST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._where = lake
        self._tokens = [(token.encode(), ""), *((each.encode(), name) for name, each in (people or {}).items())]
        self._paces = [Pace(RATE, burst) for _ in self._tokens]
        self._started, self._stopped, self._clock = started, stopped, clock
        self._lock = asyncio.Lock()
        self._lake: Lake | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            self._started()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            self._stopped()
            await send({"type": "lifespan.shutdown.complete"})
            return
        exchange = Exchange(scope, receive, send)
        try:
            await self._route(exchange)
        except Problem as problem:
            await _refuse(exchange, problem)
        except Refusal as refusal:
            await _refuse(exchange, Problem("too_large", str(refusal)))
        except TimeoutError:
            await _refuse(exchange, Problem("malformed", "the body did not come in time"))
        except StoreError as error:
            await _refuse(exchange, Problem("store", str(error)))
        except SilvaError as error:
            await _refuse(exchange, Problem("refused", str(error)))
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("a request could not be answered, by a fault of Silva's own")
            await _refuse(exchange, Problem("fault", "the server failed by a fault of its own"))

    async def _route(self, exchange: Exchange) -> None:
        method, path = exchange.scope["method"], exchange.scope["path"]
        if path == "/healthz":
            await exchange.send(200, b'{"status":"ok"}')
            return
        person = self._admitted(exchange)
        parts = path.split("/")[1:]
        if len(parts) != 4 or parts[:2] != ["v1", "runs"]:
            raise Problem("not_found", f"there is nothing at {path[:80]}: /v1/runs/RUN/words, waiting or events")
        run = unquote(parts[2])
        match method, parts[3]:
            case "POST", "words":
                await self._known(run)
                await self._say(exchange, run, person)
            case "GET", "words":
                await self._known(run)
                await _answer(exchange, {"words": await asyncio.to_thread(self._words, run)})
            case "GET", "waiting":
                await self._known(run)
                happened = await asyncio.to_thread(lambda: events(self._where, run).read())
                await _answer(exchange, {"waiting": waiting_of(happened)})
            case "GET", "events":
                await self._known(run)
                await self._events(exchange, run)
            case _:
                raise Problem("not_found", f"there is no {method} {path[:80]}")

    def _admitted(self, exchange: Exchange) -> str:
        shown = exchange.bearer()
        found = [place for place, (token, _) in enumerate(self._tokens) if hmac.compare_digest(shown, token)]
        if not found:
            raise Problem("auth", "this needs the token: send it as 'Authorization: Bearer …'")
        wait = self._paces[found[0]].take(self._clock())
        if wait:
            raise Problem("rate_limit", f"more than {RATE:g} requests a second: wait", wait)
        return self._tokens[found[0]][1]

    async def _say(self, exchange: Exchange, run: str, person: str) -> None:
        async with asyncio.timeout(_BODY_SECONDS):
            body = await exchange.body(LARGEST)
        try:
            speech = msgspec.json.decode(body, type=Speech)
        except (msgspec.DecodeError, RecursionError) as error:
            raise Problem("malformed", f"the body: {error}".replace("\n", " ")) from error
        if person and speech.by not in ("", person):
            raise Problem("forbidden", f"this token speaks as {person}, not as {speech.by[:80]}")
        given = {name: getattr(speech, name) for name in Speech.__struct_fields__ if name not in ("kind", "by")}
        if not isinstance(given["action"], str):
            given["action"] = msgspec.json.encode(given["action"]).decode()
        by = person or speech.by
        try:
            word(run, speech.kind, by, time.time(), **given)
        except UsageError as error:
            raise Problem("malformed", str(error)) from error
        async with self._lock:
            said = await asyncio.to_thread(lambda: post(self._opened(), run, speech.kind, by, **given))
        await _answer(exchange, {"said": said}, 201)

    def _words(self, run: str) -> list[dict[str, object]]:
        fates = became_of(events(self._where, run).read())
        found: list[dict[str, object]] = []
        for each in words(self._where, run):
            fate = fates.get(each.id)
            state = {"heard": fate.heard, "undone": fate.undone} if fate else {"heard": 0, "undone": []}
            found.append({**msgspec.to_builtins(each), "state": state})
        return found

    async def _events(self, exchange: Exchange, run: str) -> None:
        try:
            query = parse_qs(exchange.scope["query_string"].decode("latin-1"), max_num_fields=8)
        except ValueError as error:
            raise Problem("malformed", "the query has too many fields") from error
        after, wait = _number(query, "after"), min(_number(query, "wait"), LONGEST_WAIT)
        reader = events(self._where, run, int(after))
        until = self._clock() + wait
        found = await asyncio.to_thread(reader.read)
        while not found and self._clock() < until:
            await asyncio.sleep(_LOOK)
            found = await asyncio.to_thread(reader.read)
        await _answer(exchange, {"events": found, "after": reader.place})

    async def _known(self, run: str) -> None:
        async with self._lock:
            known = await asyncio.to_thread(lambda: self._opened().run(run))
        if known is None:
            raise Problem("not_found", f"the lake has no run {run[:80]!r}")

    def _opened(self) -> Lake:
        if self._lake is None:
            self._lake = Lake.open(self._where, mode="read")
        return self._lake


def _number(query: Mapping[str, list[str]], name: str) -> float:
    text = query.get(name, ["0"])[0]
    try:
        number = float(text)
        if not 0 <= number < 1e15:
            raise ValueError
    except ValueError as error:
        raise Problem("malformed", f"{name} is {text[:40]!r}: give a number from 0") from error
    return number


async def _answer(exchange: Exchange, body: object, status: int = 200) -> None:
    await exchange.send(status, msgspec.json.encode(body))


async def _refuse(exchange: Exchange, problem: Problem) -> None:
    unread = problem.kind in ("auth", "too_large", "rate_limit")
    await exchange.refuse_kind(
        problem.status, problem.kind, str(problem), retry_after=problem.retry_after, unread=unread
    )
