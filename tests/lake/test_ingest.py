"""Foreign agents' traces come in over HTTP: durable when acknowledged, once each, whole however they arrive."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from silva.lake import Lake
from silva.lake.ingest import Client, NotKeptError
from silva.lake.ingest.app import _partial
from silva.lake.ingest.intake import Intake
from silva.lake.ingest.limits import Limits, Refused
from silva.lake.ingest.otlp import take_protobuf
from silva.lake.ingest.taken import Taken

Server = tuple[str, subprocess.Popen[str]]


@contextmanager
def serving(lake: Path, *more: str, variables: dict[str, str] | None = None) -> Iterator[Server]:
    command = [sys.executable, "-m", "silva", "lake", "ingest", "--lake", str(lake), "--port", "0", "--settle", "0.3"]
    with subprocess.Popen(
        [*command, *more], stdout=subprocess.PIPE, text=True, env={**os.environ, **(variables or {})}
    ) as process:
        assert process.stdout
        url = process.stdout.readline().strip()
        assert url.startswith("http"), "the server did not start"
        try:
            yield url, process
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(30)


def post(url: str, body: bytes, kind: str = "application/json", **headers: str) -> tuple[int, bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data=body, headers={"content-type": kind, **named})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def status(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}/v1/status", timeout=30) as response:
        return json.load(response)


def until(url: str, **wanted: int) -> dict[str, Any]:
    deadline = time.monotonic() + 30
    while True:
        found = status(url)
        if all(found[name] >= value for name, value in wanted.items()) and not found["open"]:
            return found
        assert time.monotonic() < deadline, json.dumps(found)
        time.sleep(0.05)


def span(trace: str, own: str, parent: str, at: float, **attributes: Any) -> dict[str, Any]:
    pairs = [{"key": f"gen_ai.{key}", "value": {"stringValue": value}} for key, value in attributes.items()]
    nano = str(int(at * 1e9))
    found = {"traceId": trace, "spanId": own, "name": "s", "startTimeUnixNano": nano, "endTimeUnixNano": nano}
    return {**found, "attributes": [{**p, "key": p["key"].replace("__", ".")} for p in pairs], "parentSpanId": parent}


def body(*spans: dict[str, Any], service: str = "shop") -> bytes:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}).encode()


TRACE = "0af7651916cd43dd8448eb211c80319c"
USER = {"role": "user", "content": "how much is 3+4? my key is sk-abcdefghijklmnopqrstuvwx"}
ASKS = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}],
}
TOLD = {"role": "tool", "tool_call_id": "c1", "content": "7"}
SAYS = {"role": "assistant", "content": "Seven."}


def chat(own: str, at: float, sent: list[Any], said: list[Any]) -> dict[str, Any]:
    words = {"input__messages": json.dumps(sent), "output__messages": json.dumps(said)}
    return span(TRACE, own, "00000000000000f0", at, operation__name="chat", **words)


FIRST = {**chat("0000000000000001", 1.0, [USER], [ASKS]), "aFieldOfTomorrow": {"kept": True}}
SECOND = chat("0000000000000002", 3.0, [USER, ASKS, TOLD], [SAYS])
ROOT = span(TRACE, "00000000000000f0", "", 0.5, operation__name="invoke_agent", agent__name="clerk")
LATE = span(
    TRACE,
    "0000000000000003",
    "00000000000000f0",
    2.0,
    operation__name="execute_tool",
    tool__call__id="c1",
    tool__call__result="7",
)


def test_spans_in_pieces_twice_and_late_become_one_trajectory_that_is_amended(tmp_path: Path) -> None:
    with serving(tmp_path / "lake", "--stage", 'tag={"name":"sums","matches":"how much"}') as (url, process):
        assert post(f"{url}/v1/traces", body(SECOND, ROOT)) == (200, b"{}")
        assert post(f"{url}/v1/traces", gzip.compress(body(FIRST)), content_encoding="gzip")[0] == 200
        assert post(f"{url}/v1/traces", body(FIRST))[0] == 200  # a retry of what was kept
        until(url, made=1)
        assert post(f"{url}/v1/traces", body(LATE))[0] == 200
        found = until(url, made=2)
        assert (found["kept"], found["amended"], found["refused"]) == (5, 1, 0)
        process.terminate()
        assert process.wait(30) == 0
    with Lake.open(tmp_path / "lake", "read") as lake:
        assert len([each for each in lake.arrivals() if each.kind == "span"]) == 4
        counted, superseded = sorted(lake.trajectories(), key=lambda each: each.superseded)
        assert (counted.superseded, superseded.superseded) == (False, True)
        assert (counted.index, counted.attempt, superseded.attempt) == (superseded.index, 1, 0)
        assert (counted.agent, counted.run_id, counted.attributes["tags"]) == ("clerk", "ingest-shop", ["sums"])
        walk = lake.walk(counted)
        assert [node.message.role for node in walk] == ["user", "assistant", "tool", "assistant"]
        assert walk[0].message.text == "how much is 3+4? my key is [redacted OpenAI key]"
        assert walk[2].attributes["otel"]["span"] == LATE["spanId"]  # what the late span told
        whole = b"".join(each.data for each in lake.arrivals())
        assert b"sk-abc" not in whole and b"aFieldOfTomorrow" in whole
        run = lake.run("ingest-shop")
        assert run is not None and (run.command, run.status) == ("ingest", "completed")
        assert [finding for finding in lake.doctor() if not finding.harmless] == []


def test_what_strangers_send_is_refused_in_a_line_each_and_nothing_of_it_is_kept(tmp_path: Path) -> None:
    many = [{"key": str(number), "value": {"intValue": "1"}} for number in range(1100)]
    deep: Any = 1
    for _ in range(60):
        deep = [deep]
    packed = gzip.compress(body(FIRST))
    bearer = {"authorization": "Bearer secret"}
    with serving(tmp_path / "lake", "--token-env", "T", variables={"T": "secret"}) as (url, _):
        traces = f"{url}/v1/traces"
        for given, kind, headers, code, words in (
            (body(FIRST), "application/json", {}, 401, "token"),
            (body(FIRST), "application/json", {"authorization": "Bearer wrong"}, 401, "token"),
            (b"\xff\x00garbage", "application/x-protobuf", bearer, 400, "no OTLP protobuf"),
            (body(FIRST)[:-9], "application/json", bearer, 400, "not JSON"),
            (b'{"a":1}', "application/json", bearer, 400, "resourceSpans"),
            (json.dumps(deep).encode(), "application/json", bearer, 400, "nested deeper"),
            (packed[:-20], "application/json", {**bearer, "content_encoding": "gzip"}, 400, "cut off"),
            (
                gzip.compress(b" " * (80 << 20)),
                "application/json",
                {**bearer, "content_encoding": "gzip"},
                413,
                "unpacks",
            ),
            (b" " * (17 << 20), "application/json", bearer, 413, "larger than"),
            (body(FIRST), "text/plain", bearer, 415, "application/json"),
            (body(FIRST), "application/json", {**bearer, "content_encoding": "br"}, 415, "br"),
        ):
            answer = post(traces, given, kind, **headers)
            assert answer[0] == code and words in json.loads(answer[1])["error"]["message"], (code, answer)
        mixed = body({**FIRST, "attributes": many}, {**FIRST, "spanId": ""}, FIRST)
        code, answer = post(traces, mixed, **bearer)
        told = json.loads(answer)["partialSuccess"]
        assert (code, told["rejectedSpans"]) == (200, "2") and "1100 attributes" in told["errorMessage"]
        basic = {"authorization": "Basic cGs6c2VjcmV0"}  # pk:secret, as Langfuse's SDK sends it
        code, answer = post(
            f"{url}/api/public/scores", json.dumps({"traceId": TRACE, "name": "ok", "value": 1}).encode(), **basic
        )
        assert code == 202
    with Lake.open(tmp_path / "lake", "read") as lake:
        assert sorted(each.kind for each in lake.arrivals()) == ["assembled", "score", "span"]
        (trajectory,) = lake.trajectories()
        assert trajectory.outcome.metrics == {"ok": 1.0}


@pytest.mark.slow
def test_protobuf_of_otels_own_exporter_is_taken_with_fields_that_are_new(tmp_path: Path) -> None:
    exporter = pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    taken = Taken(1.0)
    request = trace_service_pb2.ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in range(200):  # of which all but the first have no id
        spans.add(trace_id=bytes([1] * 16), span_id=b"" if number else bytes([2] * 8))
    spans[0].MergeFromString(b"\xfa\x3e\x03new")  # field 1007, which nobody knows yet
    take_protobuf(request.SerializeToString(), taken, Limits())
    assert (len(taken.arrivals), taken.refused) == (1, 199) and b"new" in taken.arrivals[0].data
    told = trace_service_pb2.ExportTraceServiceResponse.FromString(_partial(taken)).partial_success
    assert (told.rejected_spans, told.error_message) == (199, f"a span of trace {'01' * 16} has no id")
    with serving(tmp_path / "lake", "--run", "mine", "--stage", "embed") as (url, _):
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter.OTLPSpanExporter(f"{url}/v1/traces")))
        with provider.get_tracer("t").start_as_current_span("chat") as one:
            one.set_attribute("gen_ai.operation.name", "chat")
            one.set_attribute("gen_ai.input.messages", json.dumps([USER]))
            one.set_attribute("gen_ai.output.messages", json.dumps([SAYS]))
        until(url, made=1)
        deadline = time.monotonic() + 60
        while not (tmp_path / "lake" / "tables" / "embeddings.lance").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
    with Lake.open(tmp_path / "lake", "read") as lake:
        assert [node.message.text for node in lake.walk(lake.trajectories(run_id="mine")[0])][1] == "Seven."
        assert lake.tables.count("embeddings") == 2


def send_until_killed(client: Client, acknowledged: list[str], stop: threading.Event) -> None:
    number = 0
    while not stop.is_set():
        ids = [client.call(f"s{number}", [USER], [SAYS], id=f"{number}/{each}") for each in range(3)]
        client.end(f"s{number}")
        try:
            client.flush()
        except NotKeptError:
            return
        acknowledged += ids
        number += 1


@pytest.mark.slow
def test_kill_of_the_server_loses_nothing_acknowledged_and_doubles_nothing(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    for _ in range(3):
        with serving(tmp_path / "lake") as (url, process):
            client, stop = Client(url, seconds=2), threading.Event()
            sender = threading.Thread(target=send_until_killed, args=(client, acknowledged, stop))
            sender.start()
            time.sleep(0.7)
            process.send_signal(signal.SIGKILL)
            stop.set()
            sender.join()
    with serving(tmp_path / "lake") as (url, _):
        until(url)
    with Lake.open(tmp_path / "lake", "read") as lake:
        spans = [each for each in lake.arrivals() if each.kind == "span"]
        kept = [
            pair["value"]["stringValue"]
            for each in spans
            for pair in attributes(each.data)
            if pair["key"] == "silva.record"
        ]
        assert len(acknowledged) > 3 and set(acknowledged) <= set(kept)
        assert len(spans) == len({(each.trace, each.span) for each in spans})
        # What was kept and not yet made when it was killed was made by the next one, once.
        assert {each.attributes["otel"]["trace"][0] for each in lake.trajectories()} == {each.trace for each in spans}
        assert not any(each.superseded for each in lake.trajectories() if each.attempt == 0 and each.turns > 1)


def attributes(data: bytes) -> list[dict[str, Any]]:
    return json.loads(data)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_refuses_and_goes_on_once_there_is_room(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        with serving(disk / "lake") as (url, _):
            kept, code, answer = [], 200, b""
            for number in range(40):
                one = chat(f"{number + 1:016x}", 1.0, [{"role": "user", "content": os.urandom(60_000).hex()}], [SAYS])
                code, answer = post(f"{url}/v1/traces", body(one))
                if code != 200:
                    break
                kept.append(one["spanId"])
            assert code == 503 and b"the disk is full" in answer and kept
            subprocess.run(["mount", "-o", "remount,size=80m", str(disk)], check=True)
            with Client(url, seconds=60) as client:  # goes on trying until it is kept
                client.call("after", [USER], [SAYS], id="after")
                client.flush()
        with Lake.open(disk / "lake", "read") as lake:
            spans = [each.span for each in lake.arrivals() if each.kind == "span"]
            assert set(kept) <= set(spans) and len(spans) == len(set(spans)) == len(kept) + 1
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


def test_more_than_can_be_taken_at_once_is_put_off_not_dropped(tmp_path: Path) -> None:
    intake = Intake(lambda: Lake.open(tmp_path / "lake"), Limits(under_way=1000))
    intake.admit(800)
    with pytest.raises(Refused, match="come again") as put_off:
        intake.admit(300)
    assert (put_off.value.status, put_off.value.retry_after) == (429, 1.0)
    intake.release(800)
    intake.admit(300)
    intake.lake.close_sync()


class _Busy(BaseHTTPRequestHandler):
    seen: list[bytes] = []  # noqa: RUF012

    def do_POST(self) -> None:
        self.seen.append(self.rfile.read(int(self.headers["content-length"])))
        if len(self.seen) == 1:  # cut off in the midst of an answer, as by a kill
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{")
            return
        self.send_response(429 if len(self.seen) < 3 else 200)
        self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


def test_client_sends_the_same_batch_again_until_it_is_answered_and_says_what_is_not() -> None:
    server = HTTPServer(("127.0.0.1", 0), _Busy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    with Client(url) as client:
        client.call("s", [USER], [SAYS], id="1")
        client.flush()
    assert len(_Busy.seen) == 3 and len(set(_Busy.seen)) == 1
    server.shutdown()
    server.server_close()
    lost = Client(url)
    lost.call("s", [USER], [SAYS])
    with pytest.raises(NotKeptError, match=r"1 records are not acknowledged by http://127"):
        lost.flush(0.2)
