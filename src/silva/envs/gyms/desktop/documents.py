"""Saved documents, read in a sandbox of their own: bytes ─▶ a fresh one ─▶ inside/reader.py ─▶ JSON.

Whoever used the desktop may have made the document what it likes, so it is never parsed in this process, nor where it
was made.
"""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path

from silva.envs.gyms.desktop.packages import PYTHON
from silva.errors import SilvaError
from silva.sandbox.limits import MIB, Limits
from silva.sandbox.protocol import Backend, Spec
from silva.tree import Json

MOST_BYTES = 16 << 20
KINDS = ("xlsx", "ods", "odt")
_SECONDS = 30.0
_UNREADABLE = 3
_INSIDE = Path(__file__).resolve().with_name("inside")


class Unreadable(SilvaError):
    """A document that is none, or is broken: whoever saved it did so."""


async def read(backend: Backend, content: bytes, name: str) -> Json:
    """What a document holds, by the ending of its name.

    Spreadsheets: `{"sheets": {NAME: {"B2": {"value": …, "formula": "=…" or ""}}}}`. Texts: `{"blocks": [{"level": 0 for
    a paragraph or a heading's level, "text": …}]}`.

    Raises:
        Unreadable: it cannot be read; the line says why.
        SilvaError: nothing can be read here.
    """
    kind = name.rpartition(".")[2].lower()
    if kind not in KINDS:
        raise Unreadable(f"{name}: what can be read is {', '.join(KINDS)}")
    mounts = {_INSIDE: "/opt/desktop", Path(sysconfig.get_path("purelib")): "/opt/packages"}
    limits = Limits(memory=512 * MIB, processes=16, wall=_SECONDS, output=4 * MIB)
    async with await backend.create(Spec(limits=limits, mounts=mounts)) as sandbox:
        await sandbox.put(content, f"document.{kind}")
        words = [PYTHON, "-s", "-E", "-B", "/opt/desktop/reader.py", "/opt/packages", kind, f"document.{kind}"]
        done = await sandbox.exec(words, seconds=_SECONDS)
    if not done.ok:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        why = done.reason or (lines[-1] if lines else f"exit code {done.code}")
        if done.code == _UNREADABLE or done.killed:
            raise Unreadable(f"{name} cannot be read: {why}")
        raise SilvaError(f"the reader of documents does not work here: {why}")
    return json.loads(done.stdout)
