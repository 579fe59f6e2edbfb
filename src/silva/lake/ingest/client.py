"""The SDK: what an agent of one's own says goes into the lake, and is there when `flush` returns.

    call, tool, end ─▶ spans of the GenAI conventions ─▶ a bounded queue ─▶ batches over HTTP ─▶ acknowledged
                                                          └ full: the caller waits; nothing is dropped

Every record has an id: the caller's, or one derived from what it says. A batch that was not answered is sent again, as
often as it takes; what is sent twice is stored once. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import queue
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from types import TracebackType
from typing import Any

from silva.errors import UnreachableError

_RETRIED = (408, 429, 500, 502, 503, 504)
_LONGEST = 15.0


class NotKeptError(UnreachableError):
    """Records were not acknowledged; the message says how many and why. They are still in the client's hands."""


class Client:
    """Sends records to `silva lake ingest`. Safe to use from threads.

    Args:
        url: where it listens, such as `http://127.0.0.1:4318`.
        token: its token.
        service: who sends; the run is named after it.
        batch: records a request holds at most.
        waiting: records that may wait; who adds another waits then.
        seconds: how long `flush` and `close` try before they raise.
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        service: str = "silva-client",
        batch: int = 512,
        waiting: int = 20_000,
        seconds: float = 60.0,
    ) -> None:
        self._url, self._token, self._seconds, self._batch = url.rstrip("/"), token, seconds, batch
        self._resource = {"attributes": _pairs({"service.name": service})}
        self._queue: queue.Queue[dict[str, Any]] = queue.Queue(waiting)
        self._open = 0
        self._changed = threading.Condition()
        self._refused: list[str] = []
        self._why = ""
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="silva-ingest-client", daemon=True)
        self._thread.start()

    def call(
        self,
        session: str,
        sent: Sequence[Mapping[str, Any]],
        said: Sequence[Mapping[str, Any]],
        *,
        id: str = "",
        model: str = "",
        usage: tuple[int, int] = (0, 0),
        started: float = 0.0,
        ended: float = 0.0,
    ) -> str:
        """A model call: the messages it was sent and those it said, as chat messages. Returns the record's id.

        Args:
            session: which conversation it belongs to.
            sent: the whole prompt.
            said: the reply.
            id: the caller's id of it; derived from the content where none is given.
            model: which model.
            usage: prompt and completion tokens.
            started: Unix seconds; when it arrived where 0.
            ended: the same.
        """
        said_of = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": model,
            "gen_ai.input.messages": json.dumps(list(sent), ensure_ascii=False),
            "gen_ai.output.messages": json.dumps(list(said), ensure_ascii=False),
            "gen_ai.usage.input_tokens": usage[0],
            "gen_ai.usage.output_tokens": usage[1],
        }
        return self._add(session, id, "chat", said_of, started, ended)

    def tool(
        self,
        session: str,
        call_id: str,
        name: str,
        result: str,
        *,
        id: str = "",
        error: str = "",
        started: float = 0.0,
        ended: float = 0.0,
    ) -> str:
        """What a tool gave for the call `call_id`. Returns the record's id."""
        said_of = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call_id,
            "gen_ai.tool.call.result": result,
        }
        return self._add(session, id, "execute_tool", said_of, started, ended, error=error)

    def end(self, session: str, *, agent: str = "", id: str = "", error: str = "", started: float = 0.0) -> str:
        """The session has ended, so that it need not wait to be made a trajectory. Returns the record's id."""
        said_of = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent}
        return self._add(session, id or f"{session}/end", "invoke_agent", said_of, started, 0.0, error, root=True)

    def flush(self, seconds: float | None = None) -> None:
        """Return once every record is acknowledged.

        Raises:
            NotKeptError: they are not, in the given time (they are tried further), or the server refused some for good.
        """
        until = time.monotonic() + (self._seconds if seconds is None else seconds)
        with self._changed:
            while self._open and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            refused, self._refused = self._refused, []
            if self._open:
                raise NotKeptError(
                    f"{self._open} records are not acknowledged by {self._url}: {self._why or 'no answer'}"
                )
        if refused:
            raise NotKeptError(f"{self._url} refused records: {refused[0]}")

    def close(self) -> None:
        """Flush, and end.

        Raises:
            NotKeptError: as `flush`.
        """
        try:
            self.flush()
        finally:
            self._ending.set()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, path: str, body: bytes) -> bytes:
        """Post a body until it is answered for good; the answer. For bodies of one's own: they come back acknowledged.

        Raises:
            NotKeptError: the server refuses it for good, or the client was ended meanwhile.
        """
        pause = 0.2
        headers = {"content-type": "application/json"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        while True:
            request = urllib.request.Request(f"{self._url}{path}", data=body, headers=headers)
            try:
                with urllib.request.urlopen(request, timeout=30) as response:
                    return response.read()
            except urllib.error.HTTPError as error:
                self._why = f"{error.code} {error.read(400).decode('utf-8', 'replace')}"
                if error.code not in _RETRIED:
                    raise NotKeptError(f"{self._url} refused a batch: {self._why}") from error
                asked = error.headers.get("retry-after", "")
                wait = float(asked) if asked.isdigit() else pause
            except (OSError, HTTPException, ValueError) as error:  # refused, hung up, cut off: no acknowledgement
                self._why, wait = str(error), pause
            if self._ending.wait(min(wait, _LONGEST)):
                raise NotKeptError(f"ended before {self._url} answered: {self._why}")
            pause = min(pause * 2, _LONGEST)

    def _add(
        self,
        session: str,
        own: str,
        name: str,
        said_of: dict[str, Any],
        started: float,
        ended: float,
        error: str = "",
        root: bool = False,
    ) -> str:
        if self._ending.is_set():
            raise NotKeptError("the client is closed; make another")
        own = own or hashlib.sha256(json.dumps([session, said_of, started], sort_keys=True).encode()).hexdigest()
        trace, top = _hashed(session, 32), _hashed(f"{session}/root", 16)
        span: dict[str, Any] = {
            "traceId": trace,
            "spanId": top if root else _hashed(f"{session}\n{own}", 16),
            "name": name,
            "attributes": _pairs({**said_of, "gen_ai.conversation.id": session, "silva.record": own}),
        }
        # Only the times that the caller gave: a record sent again by another process must be the same one.
        if started:
            span["startTimeUnixNano"] = str(int(started * 1e9))
        if ended or started:
            span["endTimeUnixNano"] = str(int((ended or started) * 1e9))
        if not root:
            span["parentSpanId"] = top
        if error:
            span["status"] = {"code": 2, "message": error}
        with self._changed:
            self._open += 1
        self._queue.put(span)
        return own

    def _work(self) -> None:
        while not self._ending.is_set():
            try:
                spans = [self._queue.get(timeout=0.2)]
            except queue.Empty:
                continue
            while len(spans) < self._batch:
                try:
                    spans.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            self._deliver(spans)

    def _deliver(self, spans: list[dict[str, Any]]) -> None:
        scope = {"scope": {"name": "silva"}, "spans": spans}
        body = json.dumps({"resourceSpans": [{"resource": self._resource, "scopeSpans": [scope]}]}).encode()
        why = ""
        try:
            partial = json.loads(self.send("/v1/traces", body) or b"{}").get("partialSuccess") or {}
            if int(partial.get("rejectedSpans", 0)):
                why = f"{partial['rejectedSpans']} of {len(spans)}: {partial.get('errorMessage', '')}"
        except NotKeptError as error:
            if self._ending.is_set():
                return
            why = str(error)
        except ValueError as error:
            why = f"the answer is not understood ({error}); is {self._url} an ingest server?"
        with self._changed:
            if why:
                self._refused.append(why)
            self._open -= len(spans)
            self._changed.notify_all()


def _hashed(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def _pairs(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in values.items()
        if value not in ("", 0)
    ]
