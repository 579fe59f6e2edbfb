"""Two machines write one lake in an object store in turns and are killed again and again: is anything acknowledged lost?

    python benchmarks/s3_kills.py [--quick] [--kills 30] [--seed 0]

A server of the S3 protocol on loopback (moto) and two machines: each a process with a state folder of its own and, where
the system lets this user have one, a process id namespace of its own, so that no process id of one means anything in the
other. Each takes the lake when it can get the lease (3 s here), acknowledges records, seals small segments, lets go. A
drawn one is killed (SIGKILL) at drawn moments and started anew. In the end each opens the lake once, and every record
that was acknowledged by either must be in the tables, once, and the doctor must find nothing.
"""

from __future__ import annotations

import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import boto3
from moto.server import ThreadedMotoServer

from report import Measurement, arguments, hand_in, load
from silva.lake import Lake

APART = ["unshare", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"]
PATIENCE = 300.0


class Machine:
    """A machine that is started, killed, started again; it keeps its disk."""

    def __init__(self, name: str, disk: Path, url: str, options: dict[str, str], before: list[str]) -> None:
        self.name, self._disk, self._url, self._options, self._before = name, disk, url, options, before
        self.acknowledged: list[str] = []
        self._starts = 0
        self.begin("write")

    def begin(self, mode: str) -> None:
        """Start it."""
        self._starts += 1
        self._process = subprocess.Popen(
            [
                *self._before,
                *(sys.executable, str(Path(__file__).parent / "_s3_machine.py"), self._url),
                *(json.dumps(self._options), self.name, mode, str(self._starts)),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "XDG_STATE_HOME": str(self._disk)},
        )
        self._reader = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        self._reader.start()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):
                self.acknowledged.append(line.strip())

    def kill(self) -> None:
        """As a loss of power would."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def drain(self) -> None:
        """Open and close the lake once more.

        Raises:
            SystemExit: it could not.
        """
        self.begin("drain")
        if self._process.wait(timeout=PATIENCE):
            raise SystemExit(f"machine {self.name} could not bring its records to the tables")

    @property
    def dead(self) -> bool:
        """Whether it ended by itself, which it never should."""
        return self._process.poll() is not None


def apart() -> list[str]:
    """What starts a process in a namespace of process ids of its own; nothing where this user may not."""
    for before in (APART, [*APART[:1], "--user", "--map-root-user", *APART[1:]]):
        try:
            if subprocess.run([*before, "true"], capture_output=True, timeout=20).returncode == 0:
                return before
        except (OSError, subprocess.TimeoutExpired):
            continue
    return []


def main() -> int:
    """Kill, compare, hand in."""
    parser = arguments(__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    kills, draw, before = 4 if given.quick else given.kills, random.Random(given.seed), load()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
        "aws_region": "us-east-1",
        "aws_endpoint": f"http://{host}:{port}",
        "aws_virtual_hosted_style_request": "false",
        "allow_http": "true",
    }
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
    boto3.client("s3", endpoint_url=options["aws_endpoint"], **keys).create_bucket(Bucket="kills")
    url, begun, namespaces = "s3://kills/lake", time.monotonic(), apart()
    with tempfile.TemporaryDirectory(prefix="silva-s3-kills-") as disk:
        machines = [Machine(name, Path(disk, name), url, options, namespaces) for name in ("a", "b")]
        killed = {machine.name: 0 for machine in machines}
        told, deadline = -1, time.monotonic() + PATIENCE
        while sum(killed.values()) < kills:
            time.sleep(draw.uniform(0.2, 2.5))
            if any(machine.dead for machine in machines) or time.monotonic() > deadline:
                raise SystemExit("a machine ended by itself, or nothing was acknowledged for minutes")
            if (now := sum(len(machine.acknowledged) for machine in machines)) == told:
                continue  # a kill is worth something once more was acknowledged
            told, deadline = now, time.monotonic() + PATIENCE
            machine = draw.choice(machines)
            machine.kill()
            killed[machine.name] += 1
            machine.begin("write")
        for machine in machines:
            machine.kill()
        for machine in machines:
            machine.drain()
        with Lake.open(url, "read", storage_options=options) as lake:  # from a third machine, which has no spool
            ids = [node.id for node in lake.nodes()]
            findings = lake.doctor()
    server.stop()
    rows = [
        {
            "machine": machine.name,
            "kills": killed[machine.name],
            "acknowledged": len(machine.acknowledged),
            "lost": len(set(machine.acknowledged) - set(ids)),
        }
        for machine in machines
    ]
    lost, twice = sum(row["lost"] for row in rows), len(ids) - len(set(ids))
    measured = Measurement(
        name="s3_kills",
        question="Two machines on one S3 lake, killed in turns: is anything acknowledged lost?",
        bar="0 acknowledged records lost, 0 twice, nothing for the doctor",
        ratio=float(lost + twice + len(findings)),
        holds=not (lost or twice or findings),
        rows=rows,
        details={
            "kills": sum(killed.values()),
            "in_tables": len(ids),
            "twice": twice,
            "findings": [finding.message for finding in findings],
            "own_process_ids": bool(namespaces),
            "seconds": round(time.monotonic() - begun, 1),
        },
        quick=given.quick,
    )
    return hand_in(measured, before)


if __name__ == "__main__":
    sys.exit(main())
