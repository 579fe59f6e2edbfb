"""Foreign agents' traces into a lake: what kills of the server lose, how fast they are kept, and what other SDKs drop.

    python benchmarks/ingest.py [--kills 30] [--peers PYTHON]

1. The server is killed (kill -9) again and again while clients send batches of spans and send again what was not acknowledged. Goal: 0
   spans acknowledged and lost, 0 doubled.
2. One span a request, and 512: how long an acknowledgement takes and how many spans a second are on disk. Goal: p50 at most 10 ms for
   one span, at least 30,000 spans/s in batches.
3. A burst of 20,000 spans by OTel's SDK, by Langfuse's (`--peers`: an interpreter that has `langfuse`) and by Silva's client, each with
   its own settings: how many arrive.

Writes benchmarks/results/ingest.json.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from report import Measurement, arguments, hand_in, load
from silva.lake import Lake

WORDS = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m-1",
    "gen_ai.input.messages": json.dumps([{"role": "user", "content": "word " * 60}]),
    "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": "reply " * 30}]),
}
BATCH, BURST = 512, 20_000
OTEL = """
import json, sys, time
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
provider = TracerProvider(resource=Resource.create({"service.name": "otel-burst"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=sys.argv[1] + "/v1/traces")))
tracer, words = provider.get_tracer("burst"), json.loads(sys.argv[3])
for number in range(int(sys.argv[2])):
    with tracer.start_as_current_span("chat") as span:
        span.set_attributes(words)
provider.force_flush(120_000)
provider.shutdown()
"""
LANGFUSE = """
import os, sys
os.environ |= {"LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk", "LANGFUSE_BASE_URL": sys.argv[1], "OTEL_SERVICE_NAME": "langfuse-burst"}
from langfuse import Langfuse
client = Langfuse()
for number in range(int(sys.argv[2])):
    with client.start_as_current_observation(name="chat", as_type="generation", model="m-1", input="word " * 60) as one:
        one.update(output="reply " * 30)
client.flush()
client.shutdown()
"""
SILVA = """
import sys
from silva.lake.ingest import Client
with Client(sys.argv[1], service="silva-burst") as client:
    for number in range(int(sys.argv[2])):
        client.call(f"s{number}", [{"role": "user", "content": "word " * 60}], [{"role": "assistant", "content": "reply " * 30}])
"""
FLOOD = """
import http.client, sys, time
from pathlib import Path
port, folder, part = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
bodies = [path.read_bytes() for path in sorted(folder.iterdir())][part::2]
way = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
input()
for body in bodies:
    while True:
        begun = time.perf_counter()
        way.request("POST", "/v1/traces", body, {"content-type": "application/x-protobuf"})
        answer = way.getresponse(); answer.read()
        if answer.status == 200:
            print(time.perf_counter() - begun)
            break
        time.sleep(float(answer.headers["retry-after"]))
"""


def body(count: int, trace: bytes = b"") -> tuple[bytes, list[str]]:
    """A request of new spans, and their ids."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    named = resource.resource.attributes.add(key="service.name")
    named.value.string_value = "bench"
    scope = resource.scope_spans.add()
    ids: list[str] = []
    for _ in range(count):
        own = os.urandom(8)
        span = scope.spans.add(trace_id=trace or os.urandom(16), span_id=own, name="chat")
        span.start_time_unix_nano = span.end_time_unix_nano = time.time_ns()
        for key, value in WORDS.items():
            span.attributes.add(key=key).value.string_value = value
        ids.append(own.hex())
    return request.SerializeToString(), ids


class Server:
    """`silva lake ingest`, on a port of its own that it keeps over its lives."""

    def __init__(self, lake: Path) -> None:
        self.lake = lake
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it; returns when it listens."""
        command = [sys.executable, "-m", "silva", "lake", "ingest", "--lake", str(self.lake), "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout and self.process.stdout.readline().startswith("http"), "the server did not start"

    def kill(self) -> None:
        """As a loss of power would, but for the disk."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """As a person would."""
        self.process.terminate()
        self.process.wait(120)


def post(port: int, data: bytes, seconds: float = 10.0) -> bool:
    """Whether a request was acknowledged."""
    way = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        way.request("POST", "/v1/traces", data, {"content-type": "application/x-protobuf"})
        answer = way.getresponse()
        answer.read()
        return answer.status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        way.close()


def sender(server: Server, acknowledged: set[str], stop: threading.Event, sent: Counter[str]) -> None:
    """Send batches of 20, each until it is acknowledged or all is over."""
    while not stop.is_set():
        data, ids = body(20)
        while not stop.is_set():
            sent["requests"] += 1
            if post(server.port, data):
                acknowledged.update(ids)
                break
            sent["again"] += 1
            time.sleep(0.02)


def killed(scratch: Path, kills: int) -> dict[str, Any]:
    """Kill it while clients send; count what is there."""
    server, acknowledged, stop, sent = Server(scratch / "killed"), set[str](), threading.Event(), Counter[str]()
    server.start()
    threads = [threading.Thread(target=sender, args=(server, acknowledged, stop, sent)) for _ in range(4)]
    for each in threads:
        each.start()
    for number in range(kills):
        before = len(acknowledged)
        while len(acknowledged) == before:
            time.sleep(0.01)
        time.sleep(random.Random(number).uniform(0.0, 0.6))
        server.kill()
        server.start()
    stop.set()
    for each in threads:
        each.join()
    server.stop()
    with Lake.open(server.lake, "read") as lake:
        rows = lake.sql("select trace, span, count(*) as n from arrivals where kind = 'span' group by 1, 2").to_pylist()
        walks = lake.sql("select count(*) as n from trajectories where not superseded").to_pylist()[0]["n"]
        faults = [finding.message for finding in lake.doctor() if not finding.harmless]
    kept = {row["span"] for row in rows}
    return {
        "kills": kills,
        "acknowledged": len(acknowledged),
        "lost": len(acknowledged - kept),
        "doubled": sum(row["n"] > 1 for row in rows),
        "sent_again": sent["again"],
        "spans_kept": len(kept),
        "trajectories_by_then": walks,
        "doctor": len(faults),
    }


def quick_acknowledgements(server: Server, count: int) -> list[float]:
    """How long one span a request takes to be acknowledged, ms."""
    bodies = [body(1)[0] for _ in range(count)]
    way, found = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30), list[float]()
    for data in bodies:
        begun = time.perf_counter()
        way.request("POST", "/v1/traces", data, {"content-type": "application/x-protobuf"})
        answer = way.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        found.append((time.perf_counter() - begun) * 1e3)
    return found


def processor(server: Server) -> float:
    """Seconds of processor time that the server itself has taken, its tables' and readers' processes apart."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def flooded(server: Server, scratch: Path, batches: int) -> tuple[float, list[float], float]:
    """Spans a second that two clients have acknowledged in batches; how long each batch took, ms; spans for each second
    of the server's processor time, which does not depend on what else the machine does."""
    folder = scratch / "bodies"
    folder.mkdir()
    for number in range(batches):
        (folder / f"{number:05d}").write_bytes(body(BATCH)[0])
    clients = [
        subprocess.Popen(
            [sys.executable, "-c", FLOOD, str(server.port), str(folder), str(part)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for part in range(2)
    ]
    time.sleep(2)
    begun, worked = time.perf_counter(), processor(server)
    for each in clients:
        assert each.stdin
        each.stdin.write("\n")
        each.stdin.flush()
    took = [float(line) * 1e3 for each in clients for line in (each.communicate()[0] or "").split()]
    seconds = time.perf_counter() - begun
    assert len(took) == batches
    return batches * BATCH / seconds, took, batches * BATCH / (processor(server) - worked)


def burst(server: Server, python: str, program: str, count: int) -> float:
    """Have an SDK send spans as fast as it can; seconds."""
    begun = time.perf_counter()
    command = [python, "-c", program, server.url, str(count), json.dumps(WORDS)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
    return time.perf_counter() - begun


def main() -> int:
    """All three; hand in."""
    parser = arguments(__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--peers", help="an interpreter that has langfuse")
    given = parser.parse_args()
    before, count = load(), BURST // (10 if given.quick else 1)
    kills = 3 if given.quick else given.kills
    with tempfile.TemporaryDirectory(prefix="ingest-") as name:
        scratch = Path(name)
        safe = killed(scratch, kills)
        print(safe, file=sys.stderr)
        server = Server(scratch / "fast")
        server.start()
        one = quick_acknowledgements(server, 50 if given.quick else 400)
        rate, batched, by_processor = flooded(server, scratch, 20 if given.quick else 300)
        print(statistics.median(one), rate, file=sys.stderr)
        server.stop()
        server = Server(scratch / "bursts")
        server.start()
        sdks = [
            ("silva's client", sys.executable, SILVA, "silva-burst"),
            ("OTel's SDK", sys.executable, OTEL, "otel-burst"),
        ]
        if given.peers:
            sdks.append(("Langfuse's SDK", given.peers, LANGFUSE, "langfuse-burst"))
        seconds = {service: burst(server, python, program, count) for _, python, program, service in sdks}
        server.stop()
        with Lake.open(server.lake, "read") as lake:
            rows = lake.sql(
                "select run, count(distinct span) as n from arrivals where kind = 'span' group by 1"
            ).to_pylist()
    arrived = {row["run"].removeprefix("ingest-"): row["n"] for row in rows}
    p50, told = statistics.median(one), []
    for sdk, _, _, service in sdks:
        got = arrived.get(service, 0)
        share = round(1 - got / count, 4)
        told.append(
            {"what": f"{sdk}: {count:,} spans at once", "arrived": got, "dropped": share, "seconds": seconds[service]}
        )
    measured = Measurement(
        name="ingest",
        question="Foreign agents' spans into a lake",
        bar=f"{kills} kills: 0 lost, 0 doubled; p50 <= 10 ms; >= 30,000 spans/s in batches. The ratio is spans/s to 30,000",
        ratio=rate / 30_000,
        holds=safe["lost"] == safe["doubled"] == 0 and p50 <= 10.0 and rate >= 30_000,
        rows=told,
        details={
            "kills": safe,
            "one_span_ms": {"p50": round(p50, 2), "p99": round(statistics.quantiles(one, n=100)[98], 2)},
            "batch_ms": {"spans": BATCH, "p50": round(statistics.median(batched), 1), "bytes": len(body(BATCH)[0])},
            "spans_per_second": round(rate),
            "spans_per_second_of_the_servers_processor_time": round(by_processor),
        },
        quick=given.quick,
    )
    return hand_in(measured, before)


if __name__ == "__main__":
    sys.exit(main())
