"""The console as a raw ASGI application: pages, questions, orders and streams, all behind a token.

    /?token=…  ─▶ a cookie of this console, and the page without the token in its address
    /          ─▶ the page            /static/…  ─▶ its code            (nothing without the cookie)
    /api/…     ─▶ `routes`            /events    ─▶ `stream`            /blob/HASH ─▶ an image

The policy of every answer lets the browser run our files and nothing else, and refuses markup made from text at all
(trusted types), so that words of an agent or a person cannot become code. An order must come from our own page: the
cookie is not sent from elsewhere (SameSite), and a foreign Origin is refused.
"""

from __future__ import annotations

import asyncio
from http.cookies import CookieError, SimpleCookie
from importlib import resources
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from silva.console.admission import Admission
from silva.console.loops import Loops
from silva.console.orders import Orders
from silva.console.rating import Ratings
from silva.console.reading import Reading
from silva.console.routes import order_routes, questions
from silva.console.trail import Trail
from silva.console.users import User, Users
from silva.errors import MissingError, SilvaError, StoreError
from silva.guide.word import MOST_CHARS
from silva.models.serving.exchange import Exchange, Receive, Refusal, Scope, Send
from silva.redact import redact

LARGEST = 2 * 1024 * 1024
"""Bytes of an order: what is longer than a word may be, by mistake, is still told so in words."""
HEARTBEAT = 15.0
"""Seconds of quiet after which a stream says that it lives."""
MOST_STREAMS = 64
"""Pages that may be open at once."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_TYPES = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}
_STOP = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Silva console</title>'
    "<h1>This console needs its token</h1><p>{}</p></html>"
)


class ConsoleApp:
    """The ASGI application.

    Args:
        reading: the lake; watched from the server's start to its end.
        orders: what people may do.
        users: who may come in.
        trail: what they did.
        cookie: the name of this console's cookie.
        loops: the loops it shows.
        ratings: pairs of steps that people rate.
        admission: tasks that wait for a person.
    """

    def __init__(
        self,
        reading: Reading,
        orders: Orders,
        users: Users,
        trail: Trail,
        cookie: str,
        loops: Loops,
        ratings: Ratings,
        admission: Admission,
    ) -> None:
        self._reading, self._orders, self._users = reading, orders, users
        self._trail, self._cookie, self._admission = trail, cookie, admission
        self._questions = questions(reading, orders, trail, loops, ratings, admission)
        self._order_routes = order_routes(orders)
        self._files = static_files()
        self._streams = 0
        self._ending = asyncio.Event()
        self.failure: SilvaError | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        exchange = Exchange(scope, receive, send)
        try:
            await self._route(exchange, scope["path"], scope["method"])
        except Refusal as refusal:
            await self._tell(exchange, refusal.status, str(refusal))
        except SilvaError as error:
            status = 501 if isinstance(error, MissingError) else 503 if isinstance(error, StoreError) else 400
            await self._tell(exchange, status, redact(str(error)))

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self._reading.streams.begin(asyncio.get_running_loop())
        try:
            await asyncio.to_thread(self._reading.watch.start)
        except SilvaError as error:
            self.failure = error
            await send({"type": "lifespan.startup.failed"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    def close(self) -> None:
        """Let go of the lake."""
        self._reading.close()

    def end_streams(self) -> None:
        """Let pages' streams end, so that the server can; from the loop's thread."""
        self._ending.set()

    async def _route(self, exchange: Exchange, path: str, method: str) -> None:
        if path == "/healthz":
            await exchange.send(200, b'{"status":"ok"}')
            return
        query = dict(parse_qsl(exchange.scope["query_string"].decode("latin-1"), keep_blank_values=True))
        if "token" in query and path == "/":
            await self._enter(exchange, query)
            return
        user = self._users.of(self._given(exchange))
        if user is None:
            await self._stop(exchange, path)
            return
        if path.startswith("/api/"):
            await self._api(exchange, path.removeprefix("/api/"), method, query, user)
        elif method not in ("GET", "HEAD"):
            raise Refusal(405, f"{method} is not allowed here")
        elif path == "/events":
            await self._events(exchange, query)
        elif path.startswith("/blob/"):
            data, kind = await asyncio.to_thread(self._reading.image, path.removeprefix("/blob/"))
            await exchange.send(200, data, kind.encode(), _HEADERS)
        else:
            await self._file(exchange, "index.html" if path == "/" else path.removeprefix("/static/"))

    async def _enter(self, exchange: Exchange, query: dict[str, str]) -> None:
        token = query.pop("token")
        if self._users.of(token) is None:
            await self._stop(exchange, "/", wrong=True)
            return
        where = f"/?{urlencode(query)}" if query else "/"
        cookie = f"{self._cookie}={token}; Path=/; HttpOnly; SameSite=Strict"
        headers = (*_HEADERS, (b"location", where.encode("latin-1")), (b"set-cookie", cookie.encode("latin-1")))
        await exchange.send(303, b"", _TYPES["html"], headers)

    async def _stop(self, exchange: Exchange, path: str, wrong: bool = False) -> None:
        text = "The token in this address is not valid." if wrong else "Open the address that silva console printed."
        if path.startswith(("/api/", "/events", "/blob/")):
            await self._tell(exchange, 401, "a token is needed: open the address that silva console printed")
            return
        await exchange.send(403, _STOP.format(text).encode(), _TYPES["html"], _HEADERS)

    def _given(self, exchange: Exchange) -> str:
        bearer = exchange.header(b"authorization")
        if bearer.startswith("Bearer "):
            return bearer.removeprefix("Bearer ")
        try:
            found = SimpleCookie(exchange.header(b"cookie")).get(self._cookie)
        except CookieError:
            return ""
        return found.value if found is not None else ""

    async def _api(self, exchange: Exchange, name: str, method: str, query: dict[str, str], user: User) -> None:
        if method == "GET":
            if name == "me":
                await self._json(exchange, await asyncio.to_thread(self._me, user))
                return
            question = self._questions.get(name)
            if question is None:
                raise Refusal(404, f"there is nothing at /api/{name[:60]}")
            self._check(user, question.role)
            await self._json(exchange, await asyncio.to_thread(question.answer, {**query, "me": user.name}))
            return
        order = self._order_routes.get(name)
        if method != "POST" or order is None:
            raise Refusal(405 if order else 404, f"there is no {method} /api/{name[:60]}")
        self._check(user, order.role)
        origin = exchange.header(b"origin")
        if origin and urlsplit(origin).netloc != exchange.header(b"host"):
            raise Refusal(403, "orders are taken from the console's own page only")
        if not exchange.header(b"content-type").startswith("application/json"):
            raise Refusal(415, "an order is JSON: send it as application/json")
        body = await exchange.body(LARGEST)
        await self._json(exchange, await asyncio.to_thread(order.do, user, body))

    def _check(self, user: User, role: str) -> None:
        if not user.may(role):
            raise Refusal(403, f"this takes the role {role}, and {user.name} has the role {user.role} here")

    def _me(self, user: User) -> dict[str, Any]:
        watch = self._reading.watch
        with watch.lock:
            forest = watch.forest
            counts = {"runs": len(forest.runs), "attempts": len(forest.attempts)}
        return {
            "name": user.name,
            "role": user.role,
            "lake": self._reading.lake.location,
            "trouble": watch.trouble,
            "longest": MOST_CHARS,
            "waiting": len(watch.presence.waiting()) + self._admission.count(),
            **counts,
        }

    async def _events(self, exchange: Exchange, query: dict[str, str]) -> None:
        if self._streams >= MOST_STREAMS:
            raise Refusal(429, f"{MOST_STREAMS} pages are open: close one", retry_after=5)
        stream = self._reading.streams.open(query.get("run", ""), query.get("tree", ""))
        self._streams += 1
        gone = asyncio.ensure_future(exchange.gone())
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            await exchange.begin_events(_HEADERS[:-1])
            await exchange.event(b"retry: 1000\n\ndata: {}\n\n")
            while not gone.done() and not ending.done():
                news = asyncio.ensure_future(stream.next(HEARTBEAT))
                await asyncio.wait({news, gone, ending}, return_when=asyncio.FIRST_COMPLETED)
                if not news.done():
                    news.cancel()
                    break
                await exchange.event(news.result() or b": quiet\n\n")
            if not gone.done():
                await exchange.end()
        finally:
            self._reading.streams.close(stream)
            self._streams -= 1
            gone.cancel()
            ending.cancel()

    async def _file(self, exchange: Exchange, name: str) -> None:
        found = self._files.get(name)
        if found is None:
            raise Refusal(404, f"there is nothing at {exchange.scope['path'][:80]}")
        await exchange.send(200, found, _TYPES[name.rpartition(".")[2]], _HEADERS)

    async def _json(self, exchange: Exchange, body: Any) -> None:
        await exchange.send(200, await asyncio.to_thread(msgspec.json.encode, body), headers=_HEADERS)

    async def _tell(self, exchange: Exchange, status: int, message: str) -> None:
        if exchange.started:
            await exchange.abort()
            return
        await exchange.send(status, msgspec.json.encode({"error": message}), headers=_HEADERS)


def static_files() -> dict[str, bytes]:
    """The page and its code, by name."""
    folder = resources.files("silva.console") / "static"
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.name.rpartition(".")[2] in _TYPES}
