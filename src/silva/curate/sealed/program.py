"""A person's approval of a program, and its run in the sandbox.

program, shape ─▶ digest ─▶ approved (signed, so many runs) ─▶ rows by standard input ─▶ sandbox without network
  ─▶ what it printed ─▶ gate ─▶ a reply of one size, when the policy's seconds are over, whatever happened
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from silva.curate.sealed.container import Sealed
from silva.curate.sealed.gate import Shape, Shut, let_through
from silva.curate.sealed.keys import Keys, verified
from silva.curate.sealed.ledger import Entry, Ledger
from silva.curate.sealed.policy import Policy
from silva.errors import SilvaError, UsageError
from silva.sandbox import open_backend
from silva.sandbox.limits import Limits
from silva.sandbox.protocol import Sandbox, Spec

MOST_CODE = 256 << 10
_MIB = 1 << 20
_encode = msgspec.json.Encoder(order="deterministic").encode


def digest(code: bytes, shape: Shape, sealed: Sealed) -> str:
    """What a person approves: this program, this shape, on these rows under this policy."""
    shape = msgspec.json.decode(_encode(shape), type=Shape)  # 0 and 0.0 are one number and two texts
    parts = (code, _encode(shape), sealed.manifest.rows.encode(), _encode(sealed.policy))
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def approve(code: bytes, shape: Shape, sealed: Sealed, ledger: Ledger, keys: Keys, by: str, runs: int) -> Entry:
    """Write down that a person allows a program to run.

    Raises:
        UsageError: the key is another's, or the program could say more than the policy allows.
    """
    if keys.public != sealed.manifest.public:
        raise UsageError(f"{sealed.folder}: only the key it was sealed with approves")
    if not by.strip() or runs < 1:
        raise UsageError("an approval says who gives it, and for how many runs")
    if (bits := shape.bits(sealed.policy)) > sealed.policy.bits:
        raise UsageError(f"the shape carries {bits:.1f} bits, the policy allows {sealed.policy.bits:g} in all")
    question, at = digest(code, shape, sealed), time.time()
    signature = keys.sign(_approval(question, by, runs, at)).hex()
    return ledger.write(Entry(kind="approved", question=question, at=at, runs=runs, by=by, signature=signature))


def allowed(question: str, sealed: Sealed, ledger: Ledger) -> None:
    """Raise unless a person allowed the program another run.

    Raises:
        UsageError: nobody did.
    """
    given = 0
    for each in ledger.entries:
        if each.kind == "approved" and each.question == question:
            message = _approval(question, each.by, each.runs, each.at)
            if verified(message, bytes.fromhex(each.signature), sealed.manifest.public):
                given += each.runs
    asked = sum(each.kind == "asked" and each.question == question for each in ledger.entries)
    if not given:
        raise UsageError(f"{sealed.folder}: nobody has approved this program and shape ({question[:12]})")
    if asked >= given:
        raise UsageError(f"{sealed.folder}: the program has had all {given} runs it was approved for")


async def run(code: bytes, shape: Shape, rows: bytes, sealed: Sealed) -> tuple[dict[str, Any] | None, str]:
    """The release of a program's run, or None and why not (for the owner alone). From the program's start it takes the
    policy's seconds, whatever the program does."""
    policy = sealed.policy
    limits = Limits(
        memory=1024 * _MIB,
        processes=32,
        cpus=1.0,
        disk=64 * _MIB,
        wall=policy.seconds,
        output=2 * policy.largest + 64,
        flood=_MIB,
    )
    with tempfile.TemporaryDirectory(prefix="silva-sealed-", dir=_memory()) as folder:
        async with await open_backend(state=Path(folder)) as backend, await backend.create(Spec(limits=limits)) as box:
            await box.put(code, "/workspace/program.py")
            begun = time.monotonic()
            try:
                words = await _said(box, rows, policy)
                found, why = let_through(words, shape, policy), ""
            except Shut as shut:
                found, why = None, str(shut)
            except SilvaError as error:
                found, why = None, f"the sandbox: {error}"
            spent = time.monotonic() - begun
            await asyncio.sleep(math.ceil(spent / policy.seconds) * policy.seconds - spent)
    return found, why


async def _said(box: Sandbox, rows: bytes, policy: Policy) -> bytes:
    """What a program printed.

    Raises:
        Shut: it failed, or printed more than it may.
    """
    words = ["python3", "-I", "/workspace/program.py"]
    result = await box.exec(words, stdin=rows, seconds=0.8 * policy.seconds)
    if not result.ok:
        raise Shut(f"the program ended with {result.code} {result.killed or ''}".strip())
    if result.truncated or result.stdout_bytes > policy.largest:
        raise Shut("the program printed more than a release may have")
    return result.stdout


def _memory() -> str | None:
    """A folder that is no disk, where there is one: what a program writes down of the rows is gone with it."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def read_code(path: Path) -> bytes:
    """A program's text.

    Raises:
        UsageError: it cannot be read, or is too large to be reviewed.
    """
    try:
        code = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error
    if len(code) > MOST_CODE:
        raise UsageError(f"{path}: has {len(code)} bytes; a program to be reviewed has {MOST_CODE} at most")
    return code


def _approval(question: str, by: str, runs: int, at: float) -> bytes:
    return _encode({"approves": question, "by": by, "runs": runs, "at": at})
