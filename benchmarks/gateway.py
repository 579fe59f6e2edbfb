"""What a gateway costs: latency added at one client and turns per second at 32, beside agent-lightning, rLLM and LiteLLM.

    python benchmarks/gateway.py --install
    python benchmarks/gateway.py [--only NAME ...] [--quick] [--rounds 3]

Every gateway stands before the same scripted backend (6 KB prompts; replies of 2,000 prompt ids, 200 sampled ids with log
probabilities), with its own keeping of turns switched on, and is asked afterwards how many whole turns it holds. Rounds are
interleaved; in each, a gateway is started afresh. Silva acknowledges a turn only once it is on disk; what the others do stands in
the table. Three lines are bounds, not gateways: Silva's own server and client with nothing in between, or reading what they pass
on, or reading it and having the bytes on disk before they answer.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gateway_backend import PROMPT_TOKENS, SAMPLED_TOKENS, serving
from gateway_load import Endpoint
from gateway_peers.agent_lightning import AgentLightning
from gateway_peers.forward import Forward
from gateway_peers.gateway import VENVS, Gateway, Running
from gateway_peers.litellm import LiteLLM
from gateway_peers.rllm import Rllm

from report import Measurement, arguments, hand_in, load

CLIENTS = 32
TURNS = 10
ADDED_MS, RATE, FASTER_BY, SLOWEST_MS = 1.0, 1500.0, 4.0, 100.0
BAR = f"Silva adds at most {ADDED_MS:g} ms (p50, one client), at least {RATE:,.0f} durable turns/s with p99 below {SLOWEST_MS:g} ms and {FASTER_BY:g}x the best peer ({CLIENTS} clients)"
TURNS_COLUMN = f"turns_per_second_of_{TURNS}"
COLUMNS = (
    "gateway",
    "added_p50_ms",
    "added_p99_ms",
    "turns_per_second",
    "p99_ms",
    "cpu_ms_per_turn",
    TURNS_COLUMN,
    "streamed_per_second",
    "kept",
    "kept_whole",
    "streams_kept_whole",
    "faults",
    "durable",
)
LOAD = Path(__file__).with_name("gateway_load.py")


def _silva(folder: Path) -> Gateway:
    from gateway_peers.silva import Silva

    return Silva()


FIELD = frozenset({"rllm", "agent-lightning", "litellm"})
"""Who must have been measured too before anything is judged."""

BOUNDS = ("forward", "forward-json", "forward-journal")
"""No peers: what a gateway in one Python process could do here at best (see `gateway_peers.forward`)."""

GATEWAYS: dict[str, Callable[[Path], Gateway]] = {
    **{name: lambda folder, name=name: Forward(name) for name in BOUNDS},
    "silva": _silva,
    "rllm": Rllm,
    "rllm-memory": lambda folder: Rllm(folder, store="memory"),
    "rllm-sync": lambda folder: Rllm(folder, wait=True),
    "agent-lightning": AgentLightning,
    "litellm": LiteLLM,
    "litellm-2-workers": lambda folder: LiteLLM(folder, workers=2),
}


@dataclass(frozen=True)
class Sizes:
    """How long each part of a round is: pairs at one client, seconds at many, seconds of warm-up."""

    pairs: int = 500
    seconds: float = 8.0
    warm: float = 2.0


QUICK = Sizes(pairs=100, seconds=2.0, warm=0.5)


@dataclass
class Round:
    """One gateway, one round: the load generator's reports, the gateway's memory, and what it kept of each part.

    `kept` has for every part how many replies were acknowledged, how many turns the gateway's store gained, and how
    many of these were whole.
    """

    pairs: dict[str, Any]
    loads: dict[str, dict[str, Any]] = field(default_factory=dict)
    memory_mb: float = 0.0
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)

    def count(self, part: str, acknowledged: int, running: Running) -> None:
        """Ask the gateway what it holds now; what it has gained is this part's."""
        before = {key: sum(one[key] for one in self.kept.values()) for key in ("acknowledged", "turns", "whole")}
        holds = running.kept(before["acknowledged"] + acknowledged)
        self.kept[part] = {
            "acknowledged": acknowledged,
            "turns": holds.turns - before["turns"],
            "whole": holds.whole - before["whole"],
            "note": holds.note,
        }

    def share(self, key: str, parts: tuple[str, ...]) -> tuple[int, int]:
        """Of these parts: how many acknowledged turns are kept (`turns`) or kept whole (`whole`), and how many were acknowledged."""
        taken = [self.kept[part] for part in parts if part in self.kept]
        return sum(min(one[key], one["acknowledged"]) for one in taken), sum(one["acknowledged"] for one in taken)


def ask(**wanted: Any) -> dict[str, Any]:
    """Run the load generator in a process of its own.

    Raises:
        RuntimeError: it failed; the message holds the end of its words.
    """
    done = subprocess.run([sys.executable, str(LOAD), json.dumps(wanted)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the load generator failed: {done.stderr.strip()[-800:]}")
    return json.loads(done.stdout)


def measure(gateway: Gateway, backend: str, sizes: Sizes) -> Round:
    """Start it, load it, ask what it kept."""
    with tempfile.TemporaryDirectory(prefix="gateway-") as scratch, gateway.start(backend, Path(scratch)) as running:
        through = asdict(running.endpoints(1)[0])
        direct = asdict(Endpoint(f"{backend}/v1"))
        taken = Round(ask(kind="pairs", direct=direct, through=through, count=sizes.pairs, warm=30, stream=False))
        taken.count("pairs", taken.pairs["through"]["acknowledged"], running)
        endpoints = [asdict(one) for one in running.endpoints(CLIENTS)]
        ways = {"single": (1, False), "turns": (TURNS, False), **({"stream": (1, True)} if gateway.streams else {})}
        for name, (turns, stream) in ways.items():
            before = cpu_seconds(running.pid)
            report = ask(
                kind="closed", endpoints=endpoints, seconds=sizes.seconds, warm=sizes.warm, turns=turns, stream=stream
            )
            report["cpu_ms_per_request"] = round(
                1000 * (cpu_seconds(running.pid) - before) / max(1, report["acknowledged"]), 3
            )
            taken.loads[name] = report
            taken.memory_mb = memory_mb(running.pid)
            taken.count(name, report["acknowledged"], running)
    return taken


def directly(backend: str, sizes: Sizes) -> dict[str, dict[str, Any]]:
    """The same loads without a gateway: the bound."""
    endpoints = [asdict(Endpoint(f"{backend}/v1"))] * CLIENTS
    ways = {"single": (1, False), "turns": (TURNS, False), "stream": (1, True)}
    return {
        name: ask(kind="closed", endpoints=endpoints, seconds=sizes.seconds / 2, warm=0.5, turns=turns, stream=stream)
        for name, (turns, stream) in ways.items()
    }


def _family(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += _family(int(child))
    return found


def cpu_seconds(pid: int) -> float:
    """Processor seconds of a process and its living descendants."""
    ticks = 0
    for one in _family(pid):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    """Resident megabytes of a process and its living descendants."""
    pages = sum(int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in _family(pid))
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def _median(rounds: list[Round], way: str, key: str) -> float | None:
    values = [one.loads[way][key] for one in rounds if way in one.loads and one.loads[way][key] is not None]
    return statistics.median(values) if values else None


def _share(rounds: list[Round], key: str, parts: tuple[str, ...]) -> float | None:
    counted = [one.share(key, parts) for one in rounds]
    of = sum(acknowledged for _, acknowledged in counted)
    return round(sum(held for held, _ in counted) / of, 4) if of else None


def row(gateway: Gateway, rounds: list[Round]) -> dict[str, Any]:
    """One line of the table."""
    added = sorted(value for one in rounds for value in one.pairs["added_ms"])
    return {
        "gateway": gateway.name,
        "added_p50_ms": round(statistics.median(added), 3) if added else None,
        "added_p99_ms": round(added[int(0.99 * len(added))], 3) if added else None,
        "turns_per_second": _median(rounds, "single", "rps"),
        "p99_ms": _median(rounds, "single", "p99_ms"),
        "cpu_ms_per_turn": _median(rounds, "single", "cpu_ms_per_request"),
        TURNS_COLUMN: _median(rounds, "turns", "rps"),
        "streamed_per_second": _median(rounds, "stream", "rps"),
        "kept": _share(rounds, "turns", ("pairs", "single", "turns")),
        "kept_whole": _share(rounds, "whole", ("pairs", "single", "turns")),
        "streams_kept_whole": _share(rounds, "whole", ("stream",)),
        "faults": sum(
            sum(report["faults"].values()) for one in rounds for report in (one.pairs["through"], *one.loads.values())
        ),
        "durable": gateway.durable,
    }


def compare(
    gateways: list[Gateway], sizes: Sizes, rounds: int
) -> tuple[dict[str, list[Round]], list[dict[str, Any]], dict[str, str]]:
    """Every gateway once a round, in turn, before one backend; the backend alone; and who failed, with the reason."""
    taken: dict[str, list[Round]] = {one.name: [] for one in gateways}
    bounds: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    with serving() as backend:
        for number in range(rounds):
            bounds.append(directly(backend, sizes))
            for gateway in gateways:
                if gateway.name in failed:
                    continue
                try:
                    one = measure(gateway, backend, sizes)
                except RuntimeError as error:
                    failed[gateway.name] = str(error)
                    sys.stderr.write(f"{gateway.name} failed: {error}\n")
                    continue
                taken[gateway.name].append(one)
                sys.stderr.write(f"round {number + 1}: {gateway.name} {_in_short(one)}\n")
    return {name: of for name, of in taken.items() if name not in failed}, bounds, failed


def _in_short(one: Round) -> str:
    single = one.loads["single"]
    added = statistics.median(one.pairs["added_ms"]) if one.pairs["added_ms"] else float("nan")
    return f"+{added:.2f} ms, {single['rps']:,.0f}/s, faults {single['faults']}, {one.kept['single']}"


def bound(bounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The table's first line: the backend asked directly."""
    shown = {key: None for key in COLUMNS}
    single = [one["single"] for one in bounds]
    return {
        **shown,
        "gateway": "none",
        "turns_per_second": statistics.median(one["rps"] for one in single),
        "p99_ms": statistics.median(one["p99_ms"] for one in single),
        TURNS_COLUMN: statistics.median(one["turns"]["rps"] for one in bounds),
        "streamed_per_second": statistics.median(one["stream"]["rps"] for one in bounds),
    }


def judge(rows: list[dict[str, Any]]) -> tuple[float, bool]:
    """Silva's rate over the best peer's, and whether every part of the bar holds. The first row is the backend alone."""
    by_name = {one["gateway"]: one for one in rows[1:] if one["gateway"] not in BOUNDS}
    silva = by_name.pop("silva")
    best = max(one["turns_per_second"] for one in by_name.values()) if by_name else 0.0
    ratio = silva["turns_per_second"] / best if best else 0.0
    kept = silva["kept"] >= 1 and silva["kept_whole"] >= 1 and silva["streams_kept_whole"] >= 1 and not silva["faults"]
    fast = silva["added_p50_ms"] <= ADDED_MS and silva["turns_per_second"] >= RATE and silva["p99_ms"] < SLOWEST_MS
    return ratio, kept and fast and ratio >= FASTER_BY


def main() -> int:
    """Install, or measure, print, write, judge."""
    parser = arguments(__doc__)
    parser.add_argument(
        "--only",
        nargs="+",
        choices=GATEWAYS,
        default=[*BOUNDS, "silva", "rllm", "rllm-memory", "agent-lightning", "litellm"],
        metavar="NAME",
        help=f"which gateways (of {', '.join(GATEWAYS)})",
    )
    parser.add_argument("--rounds", type=int, default=None, help="rounds (default 3; quick 1)")
    parser.add_argument("--install", action="store_true", help="build the peers' virtual environments and stop")
    parser.add_argument("--folder", type=Path, default=VENVS, help="where they are kept")
    given = parser.parse_args()
    gateways = [GATEWAYS[name](given.folder) for name in given.only]
    if given.install:
        for one in gateways:
            one.install(given.folder)
            print(f"{one.name} {one.version}: installed")
        return 0
    absent = {one.name: why for one in gateways if (why := one.missing(given.folder))}
    for name, why in absent.items():
        print(f"{name}: {why}")
    gateways = [one for one in gateways if one.name not in absent]
    if not gateways:
        return 2
    rounds, before, sizes = given.rounds or (1 if given.quick else 3), load(), QUICK if given.quick else Sizes()
    if before > 1:
        sys.stderr.write(f"the machine is busy (load {before:g}): figures will be low and unsteady\n")
    taken, bounds, failed = compare(gateways, sizes, rounds)
    if not taken:
        return 1
    rows = [bound(bounds), *(row(one, taken[one.name]) for one in gateways if one.name in taken)]
    judged = taken.keys() >= FIELD | {"silva"}
    ratio, holds = judge(rows) if judged else (0.0, False)
    measured = Measurement(
        name="gateway" if judged else "gateway_alone",
        question=f"A gateway that keeps every turn: 6 KB prompts, {PROMPT_TOKENS:,} prompt ids and {SAMPLED_TOKENS} sampled; {CLIENTS} clients unless said otherwise",
        bar=BAR if judged else f"no bar: Silva and all of {', '.join(sorted(FIELD))} are needed",
        ratio=ratio,
        holds=holds,
        rows=rows,
        details={
            "backend_alone": bounds,
            "rounds": {name: [_without_raw(one) for one in of] for name, of in taken.items()},
            "not_installed": absent,
            "failed": failed,
            "sizes": asdict(sizes),
            "rounds_taken": rounds,
            "file_system": _file_system(),
        },
        versions={one.name: one.version for one in gateways},
        quick=given.quick,
    )
    return max(hand_in(measured, before), int(bool(failed)))


def _file_system() -> str:
    """What the gateways' files lie on: on one in memory, a turn is on disk for nothing."""
    told = subprocess.run(
        ["stat", "-f", "-c", "%T", tempfile.gettempdir()], capture_output=True, text=True, check=False
    )
    return told.stdout.strip() or "not known"


def _without_raw(one: Round) -> dict[str, Any]:
    record = asdict(one)
    del record["pairs"]["added_ms"]
    return record


if __name__ == "__main__":
    sys.exit(main())
