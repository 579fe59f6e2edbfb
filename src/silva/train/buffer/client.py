"""A job's buffer over HTTP, with the methods of `Buffer`.

call ─▶ request ─▶ answer, or Refused as the server said it
          └─ no answer, or the server is busy or its disk full: the same request again, for `patience` seconds
             (every call of the buffer may be repeated), so a server that was killed and started again is not noticed
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
import msgspec

from silva.errors import StoreError, UnreachableError, UsageError
from silva.train.buffer.config import JobConfig
from silva.train.buffer.group import Admission, Delivery, Group, Receipt, Status, Withheld
from silva.train.buffer.refused import STATUS, Refused

LONGEST_WAIT = 20.0
"""Seconds that one request asks the server to wait; a longer wait is several requests."""
ANSWER_SECONDS = 120.0
"""How long an answer may take, besides the waiting it was asked to do."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0

Shape = TypeVar("Shape")


class BufferClient:
    """A `Buffer` behind HTTP. Use it within one event loop; `close` it, or use it as an async context manager.

    Args:
        url: of the server, such as http://127.0.0.1:8720.
        job: the job's name.
        token: the job's token.
        patience: seconds to try again while the server does not answer.

    Raises:
        UsageError: the url cannot be used.
    """

    def __init__(self, url: str, job: str, token: str, *, patience: float = 60.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"buffer url {url[:60]!r}: write it as http://HOST:PORT")
        self.job = job
        self._url = f"{url.rstrip('/').removesuffix('/v1')}/v1/jobs"
        self._path = f"/{quote(job, safe='')}"
        self._token, self._patience = token, patience
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def from_environment(cls, *, patience: float = 60.0) -> BufferClient:
        """The job that SILVA_BUFFER_URL, SILVA_BUFFER_JOB and SILVA_BUFFER_TOKEN name.

        Raises:
            UsageError: one of them is not set.
        """
        values = [os.environ.get(name, "") for name in VARIABLES]
        for name, value in zip(VARIABLES, values, strict=True):
            if not value:
                raise UsageError(f"${name} is not set: `silva train buffer --job NAME` prints it")
        return cls(*values, patience=patience)

    async def __aenter__(self) -> BufferClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """See `Buffer.close`."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def permits(self) -> int:
        """See `Buffer.permits`."""
        return (await self.status()).permits

    async def start(self, ids: Sequence[str], *, wait: float = 0.0) -> Admission:
        """See `Buffer.start`."""
        deadline = time.monotonic() + wait
        while True:
            left = max(0.0, deadline - time.monotonic())
            body = {"ids": list(ids), "wait": min(left, LONGEST_WAIT)}
            try:
                return _read(await self._post("/start", body, left), Admission)
            except Refused as refused:
                if refused.kind != "full":
                    raise
            if time.monotonic() >= deadline:
                return Admission(admitted=())

    async def abandon(self, ids: Sequence[str]) -> int:
        """See `Buffer.abandon`."""
        return _read(await self._post("/abandon", {"ids": list(ids)}), dict[str, int])["abandoned"]

    async def put(self, group: Group, *, wait: float = 0.0) -> Receipt:
        """See `Buffer.put`."""
        group.header()
        data = await asyncio.to_thread(msgspec.msgpack.encode, group)
        deadline = time.monotonic() + wait
        while True:
            try:
                return _read(await self._call("POST", f"{self._path}/groups", data), Receipt)
            except Refused as refused:
                if refused.kind != "full" or time.monotonic() >= deadline:
                    raise
                await asyncio.sleep(min(refused.retry_after or 1.0, max(0.0, deadline - time.monotonic())))

    async def take(self, after: int, count: int, *, wait: float = 0.0) -> list[Delivery]:
        """See `Buffer.take`."""
        deadline = time.monotonic() + wait
        while True:
            left = max(0.0, deadline - time.monotonic())
            body = {"after": after, "count": count, "wait": min(left, LONGEST_WAIT)}
            data = await self._post("/take", body, left)
            found = await asyncio.to_thread(msgspec.msgpack.decode, data, type=list[Delivery])
            if found or time.monotonic() >= deadline:
                return found

    async def commit(self, cursor: int, version: int | None = None, *, checkpointed: int | None = None) -> Status:
        """See `Buffer.commit`."""
        body = {"cursor": cursor, "version": version, "checkpointed": checkpointed}
        return _read(await self._post("/commit", body), Status)

    async def rewind(self, cursor: int, version: int) -> Status:
        """See `Buffer.rewind`."""
        return _read(await self._post("/rewind", {"cursor": cursor, "version": version}), Status)

    async def status(self) -> Status:
        """See `Buffer.status`."""
        return _read(await self._call("GET", self._path), Status)

    async def withheld(self, after: int = 0, most: int = 100) -> list[Withheld]:
        """See `Buffer.withheld`."""
        query = urlencode({"after": after, "most": most})
        return _read(await self._call("GET", f"{self._path}/withheld?{query}"), dict[str, list[Withheld]])["withheld"]

    async def read(self, name: str) -> Group:
        """See `Buffer.read`."""
        data = await self._call("GET", f"{self._path}/groups?{urlencode({'id': name})}")
        return await asyncio.to_thread(msgspec.msgpack.decode, data, type=Group)

    async def _post(self, path: str, body: dict[str, Any], wait: float = 0.0) -> bytes:
        return await self._call("POST", self._path + path, msgspec.json.encode(body), min(wait, LONGEST_WAIT))

    async def _call(self, method: str, path: str, data: bytes | None = None, wait: float = 0.0) -> bytes:
        session = self._session
        if session is None:
            headers = {"Authorization": f"Bearer {self._token}"}
            session = self._session = aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=0))
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS + wait, sock_connect=10.0)
        pause, deadline = FIRST_PAUSE, time.monotonic() + self._patience
        while True:
            try:
                async with session.request(method, self._url + path, data=data, timeout=timeout) as answer:
                    body = await answer.read()
                    if answer.status < 300:
                        return body
                    raise _refused(answer.status, body, answer.headers.get("Retry-After", ""))
            except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
                failure: Exception = UnreachableError(
                    f"buffer job {self.job}: its server does not answer ({type(error).__name__}); "
                    "start it: `silva train buffer`"
                )
            except Refused as refused:
                if refused.kind not in ("busy", "store"):
                    raise
                failure = StoreError(str(refused)) if refused.kind == "store" else refused
            if time.monotonic() + pause > deadline:
                raise failure
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


async def open_job(
    url: str, admin_token: str, job: str, terms: JobConfig | None = None, *, patience: float = 60.0
) -> BufferClient:
    """Open a job on a server, or find the one that was opened by the same terms; a client of it.

    Raises:
        Refused: the token is wrong, or the job was opened by other terms.
        UnreachableError: the server does not answer.
    """
    body = {"job": job, "terms": (terms or JobConfig()).model_dump()}
    async with BufferClient(url, job, admin_token, patience=patience) as admin:
        data = await admin._call("POST", "", msgspec.json.encode(body))
    return BufferClient(url, job, _read(data, dict[str, Any])["token"], patience=patience)


VARIABLES = ("SILVA_BUFFER_URL", "SILVA_BUFFER_JOB", "SILVA_BUFFER_TOKEN")
"""Where programs find their job."""


def _read(data: bytes, shape: type[Shape]) -> Shape:
    try:
        return msgspec.json.decode(data, type=shape)
    except msgspec.DecodeError as error:
        raise UnreachableError(
            f"the buffer's answer cannot be read ({error}); is it one of Silva's, of this version?"
        ) from error


_KINDS = {status: kind for kind, status in STATUS.items()}


def _refused(status: int, body: bytes, retry_after: str) -> Refused:
    try:
        error = msgspec.json.decode(body)["error"]
        kind, message = str(error["kind"]), str(error["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        kind, message = _KINDS.get(status, "fault"), f"the buffer answered {status}"
    pause = float(retry_after) if retry_after.isdigit() else None
    return Refused(kind if kind in STATUS else "fault", message, pause)
