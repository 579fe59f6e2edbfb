"""Packages that an installer of another's fetches: once, into a folder named by the digest of what was asked for.

wanted ─▶ digest ─▶ there already? ─▶ its folder
            └ no ─▶ installer, into a folder beside ─▶ settled ─▶ packages.txt (asked for, and what came) ─▶ renamed
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from silva.envs.home import home
from silva.errors import MissingError

_SECONDS = 900.0
"""What an installation may take."""


def fetched(
    name: str,
    kind: str,
    wanted: Sequence[str],
    installer: str,
    command: Callable[[Path], list[str]],
    why: Callable[[str], str],
    settled: Callable[[Path], Sequence[str]],
) -> Path:
    """The folder of some packages, fetched where nobody has yet. Blocks.

    Args:
        name: the task's, for the line that refuses.
        kind: what else decides what comes (a version of Python, the kind of package).
        wanted: the packages, sorted.
        installer: its name.
        command: its words, for the folder it installs into.
        why: what to say of its complaints.
        settled: makes what came usable, and says which versions those are.

    Raises:
        MissingError: they cannot be had; the line names the task.
    """
    known = hashlib.blake2b("\n".join([kind, *wanted]).encode(), digest_size=12).hexdigest()
    place = home() / "packages" / known
    if place.is_dir():
        return place
    new = place.with_name(f"{known}-{secrets.token_hex(3)}")
    new.mkdir(parents=True)
    words = command(new)
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        shutil.rmtree(new, ignore_errors=True)
        raise MissingError(f"task {name}: {installer} did not end within {_SECONDS:g} s") from error
    if done.returncode:
        shutil.rmtree(new, ignore_errors=True)
        raise MissingError(f"task {name}: {', '.join(wanted)} cannot be installed: {why(done.stderr)}")
    try:
        came = settled(new)
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(new, ignore_errors=True)
        raise MissingError(f"task {name}: what {installer} fetched cannot be used: {error}") from error
    (new / "packages.txt").write_text("\n".join([*wanted, "", *came]) + "\n")
    if not place.exists():
        new.rename(place)
    else:
        shutil.rmtree(new, ignore_errors=True)
    return place
