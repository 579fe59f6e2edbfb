"""The state of an in-process environment, outside it: the instance, pickled, with the versions of what made it.

    instance ─▶ pickled ─▶ bytes … bytes ─▶ unpickled ─▶ another instance, here or in another host process

Pickled data can run code when it is read, so it is read in a host alone, and the engine hands a host only what bears
the seal of this machine (`silva.rollout.snapshots.seal`). What an environment keeps of itself is the affair of its
`__getstate__`: files, threads and caches have no place in it.
"""

from __future__ import annotations

import hashlib
import pickle
import platform
import sys
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import silva
from silva.envs.errors import EnvError

EXACT = "exact"
"""Everything is as it was."""
FILES = "files+replay"
"""The files are as they were; what ran is not, and is reached again by replay."""
REPLAY = "replay"
"""Nothing was kept: the actions are taken again."""

LIMIT = 48 << 20
"""Most bytes of a state: it crosses to the engine in one frame."""


def pickled(environment: Any) -> bytes:
    """The instance as bytes.

    Raises:
        EnvError: `env.snapshot`: it holds what cannot be pickled, or is too large.
    """
    name = type(environment).__name__
    try:
        data = pickle.dumps(environment, protocol=5)
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        raise EnvError("env.snapshot", f"{name} holds what cannot be kept: {type(error).__name__}: {text}") from error
    if len(data) > LIMIT:
        raise EnvError("env.snapshot", f"{name}'s state is {len(data) >> 20} MB; the limit is {LIMIT >> 20} MB")
    return data


def unpickled(kind: type, data: bytes) -> Any:
    """The instance that the bytes hold.

    Raises:
        EnvError: `env.snapshot`: they are damaged, or hold no instance of `kind`.
    """
    try:
        made = pickle.loads(data)
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        raise EnvError("env.snapshot", f"the state is damaged ({type(error).__name__}: {text}): replay") from error
    if type(made) is not kind:
        raise EnvError("env.snapshot", f"the state is of a {type(made).__name__}, not of {kind.__name__}: replay")
    return made


def versions(kind: type, packages: Iterable[str]) -> dict[str, str]:
    """What a state of `kind` depends on: interpreter, Silva, the class's own source, the first of the named packages
    by its name, and the others by the digest of their versions."""
    known = {"python": platform.python_version(), "silva": silva.__version__, "source": _source(kind)}
    first, *others = list(packages) or [""]
    if first:
        known[first] = _version(first)
    if others:
        lines = "\n".join(sorted(f"{name} {_version(name)}" for name in others))
        known["its packages"] = hashlib.blake2b(lines.encode(), digest_size=8).hexdigest()
    return known


def check(then: dict[str, str], now: dict[str, str]) -> None:
    """Refuse a state of other versions.

    Raises:
        EnvError: `env.snapshot`, naming what differs.
    """
    for name, version in then.items():
        if now.get(name) != version:
            text = f"{name} was {version or 'not there'} and is {now.get(name) or 'not there'}"
            raise EnvError("env.snapshot", f"made by another version ({text}): replay, or install that version")


@cache
def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


@cache
def _source(kind: type) -> str:
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is None:
        return ""
    return hashlib.blake2b(Path(file).read_bytes(), digest_size=8).hexdigest()
