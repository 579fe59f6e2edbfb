"""Documents read in a sandbox of their own: bytes out of the agent's sandbox ─▶ a fresh one ─▶ reader.py ─▶ text.

Nobody has looked at a document before, and parsers have faults: it is never parsed in this process, nor where the agent
works. The sandbox has this environment's packages to read, little memory and time, and goes with the document.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from silva.errors import MissingError, UsageError
from silva.sandbox.limits import Limits
from silva.sandbox.protocol import Backend, Spec

KINDS = {
    ".pdf": "pdf",
    ".docx": "docx",
    ".pptx": "pptx",
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ico"), "image"),
}
MOST_BYTES = 32 << 20
SECONDS = 30.0
_NEEDED = {"pdf": "pypdf", "docx": "docx", "pptx": "pptx", "image": "PIL"}
_PYTHON = "/opt/python"
_PACKAGES = "/opt/packages"


def kind_of(path: str) -> str:
    """Which reader a file's name asks for.

    Raises:
        UsageError: none.
    """
    kind = KINDS.get(Path(path).suffix.lower())
    if kind is None:
        raise UsageError(f"{path}: document_read reads {', '.join(KINDS)}; use file_view for text")
    return kind


async def text_of(backend: Backend, content: bytes, path: str) -> str:
    """The text of a document.

    Args:
        backend: where its sandbox is made.
        content: its bytes.
        path: its name, which tells the kind, and for messages.

    Raises:
        UsageError: it cannot be read; the line says why.
        MissingError: the package that reads it is not installed.
    """
    kind = kind_of(path)
    spec = importlib.util.find_spec(_NEEDED[kind])
    if spec is None or spec.origin is None:
        raise MissingError(f"document_read needs the package {_NEEDED[kind]}: run `silva envs install terminal`")
    packages = Path(spec.origin).parent.parent
    apart = backend.name == "process"
    mounts = {} if apart else {packages: _PACKAGES, **_interpreter()}
    limits = Limits(memory=512 << 20, processes=16, wall=SECONDS, output=4 << 20)
    async with await backend.create(Spec(limits=limits, mounts=mounts)) as sandbox:
        await sandbox.put(Path(__file__).with_name("reader.py"), "reader.py")
        await sandbox.put(content, "document")
        python, place, variables = sys.executable, str(packages), {}
        if not apart:
            here = _interpreter()
            python = f"{_PYTHON}/bin/{_name()}" if here else f"/usr/bin/{_name()}"
            variables = {"LD_LIBRARY_PATH": f"{_PYTHON}/lib"} if here else {}
            place = _PACKAGES
        words = [python, "-s", "-E", "-B", "reader.py", place, kind, "document"]
        done = await sandbox.exec(words, seconds=SECONDS, variables=variables)
    if not done.ok:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        why = done.reason or (lines[-1] if lines else f"exit code {done.code}")
        raise UsageError(f"{path} cannot be read as {kind}: {why}")
    return done.text.strip() or f"{path} holds no text"


def _interpreter() -> dict[Path, str]:
    """What to mount so that this Python's like runs there; nothing where it is the system's own."""
    return {} if sys.base_prefix == "/usr" else {Path(sys.base_prefix): _PYTHON}


def _name() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"
