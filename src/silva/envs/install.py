"""Virtual environments for environments: one per set of pinned requirements, built once, found by digest.

    install(entry) ─▶ lock ─▶ $SILVA_HOME/envs/PACKAGE-<digest>/ ─▶ venv, pip ─▶ marker, written last
    links(entry)   ─▶ $SILVA_HOME/links/<digest>/ ─▶ what a host finds on its path besides

A folder without the marker is what an interrupted install left and is built anew. Entries of the same requirements
share one. Silva itself is not in it: the links make this very `silva` (and the entry's own top-level package, when that
is not silva) importable for a host, without letting anything else of this interpreter's packages in; two checkouts of
Silva thus share what they installed and never each other's code.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import msgspec

from silva.envs.home import home
from silva.envs.protocol import EnvironmentEntry
from silva.errors import Exit, MissingError, SilvaError, UsageError

MARKER = "silva-installed.json"


class InstallError(SilvaError):
    """An environment's packages could not be installed; the message carries pip's last error line."""

    code = Exit.MISSING


def location(entry: EnvironmentEntry) -> Path:
    """The folder of the entry's virtual environment, whether it exists or not: entries of the same pins share one."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    facts = (version, metadata.version("msgspec"), *entry.requirements, "--no-deps", *entry.no_deps)
    facts += ("node", *entry.node) if entry.node else ()
    digest = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]
    name = re.split(r"[^A-Za-z0-9._-]", (*entry.no_deps, *entry.requirements, entry.name)[0])[0]
    return home() / "envs" / f"{name}-{digest}"


def installed(entry: EnvironmentEntry) -> bool:
    """Whether the entry's virtual environment stands complete."""
    return (location(entry) / MARKER).is_file()


def satisfied_here(entry: EnvironmentEntry) -> bool:
    """Whether this interpreter holds every pinned requirement at its pinned version; never what npm brings."""
    if entry.node:
        return False
    for requirement in (*entry.requirements, *entry.no_deps):
        name, _, version = requirement.partition("==")
        try:
            found = metadata.version(name.split("[")[0].strip())
        except metadata.PackageNotFoundError:
            return False
        if version and found != version.split(";")[0].strip():
            return False
    return True


def interpreter(entry: EnvironmentEntry) -> str:
    """The Python that hosts of this entry run in: its own virtual environment, or this one where that suffices.

    Raises:
        MissingError: it has requirements that are neither installed for it nor satisfied here.
    """
    if (entry.requirements or entry.no_deps or entry.node) and installed(entry):
        return str(_python(location(entry)))
    if satisfied_here(entry):
        return sys.executable
    raise MissingError(f"environment {entry.name} is not installed; run: silva envs install {entry.name}")


def install(
    entry: EnvironmentEntry, say: Callable[[str], None] = lambda line: None, wait: float = 3600.0, again: bool = False
) -> Path:
    """Build the entry's virtual environment unless it stands complete; returns its folder.

    `say` is told each step. Another install of the same environment is waited for up to `wait` seconds. `again` builds
    it anew.

    Raises:
        UsageError: the entry has no requirements, so there is nothing to install.
        InstallError: pip failed, or another install did not end in time.
    """
    import filelock

    if not entry.requirements and not entry.no_deps and not entry.node:
        raise UsageError(f"environment {entry.name} needs no install: it runs in this interpreter")
    folder = location(entry)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(f"{folder}.lock", timeout=wait):
            if not installed(entry) or again:
                _build(entry, folder, say)
    except filelock.Timeout as error:
        raise InstallError(f"envs install {entry.name}: another install of it is still running; try later") from error
    return folder


def _build(entry: EnvironmentEntry, folder: Path, say: Callable[[str], None]) -> None:
    if folder.exists():
        say("removing what an earlier install left")
        (folder / MARKER).unlink(missing_ok=True)
        shutil.rmtree(folder)
    say("creating a virtual environment")
    venv.EnvBuilder(with_pip=not _pip_here(), symlinks=True).create(folder)
    say(f"installing {len(entry.requirements) + len(entry.no_deps)} requirements")
    _pip(entry, folder, [f"msgspec=={metadata.version('msgspec')}", *entry.requirements])
    if entry.no_deps:
        _pip(entry, folder, ["--no-deps", *entry.no_deps])
    if entry.node:
        say(f"installing {' '.join(entry.node)} by npm")
        _npm(entry, folder)
    facts = {
        "environment": entry.name,
        "requirements": entry.requirements,
        "no_deps": entry.no_deps,
        "node": entry.node,
    }
    (folder / MARKER).write_bytes(msgspec.json.encode(facts))
    say("done")


def _pip(entry: EnvironmentEntry, folder: Path, arguments: list[str]) -> None:
    where = [sys.executable, "-m", "pip", "--python", str(_python(folder))]
    if not _pip_here():
        where = [str(_python(folder)), "-m", "pip"]
    command = [*where, "install", "--quiet", "--no-input", "--disable-pip-version-check", *arguments]
    # With PYTHONPATH set, pip would take what lies there for installed.
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR:")] or lines or [f"exit status {done.returncode}"]
        raise InstallError(f"envs install {entry.name}: pip failed: {errors[-1][:300]}")


def _npm(entry: EnvironmentEntry, folder: Path) -> None:
    """Install npm's packages into the folder's own node_modules; a package `node` among them runs those after it."""
    npm = shutil.which("npm")
    if npm is None:
        why = "npm is not here; install it first (Debian: apt-get install nodejs npm)"
        raise InstallError(f"envs install {entry.name}: {why}")
    path = os.pathsep.join((str(folder / "node_modules" / ".bin"), os.environ.get("PATH", os.defpath)))
    for package in entry.node:
        command = [
            npm,
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--save-exact",
            "--prefix",
            str(folder),
            package,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path})
        if done.returncode != 0:
            lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
            last = lines[-1][:300] if lines else f"exit status {done.returncode}"
            raise InstallError(f"envs install {entry.name}: npm could not install {package}: {last}")


def _pip_here() -> bool:
    """Whether this interpreter's pip can install into another: 20 times quicker than a pip for every environment."""
    return importlib.util.find_spec("pip") is not None


def links(entry: EnvironmentEntry) -> Path:
    """The folder that makes this `silva`, and the package of the entry's class, importable in a host; made if need be.

    Raises:
        InstallError: it cannot be written.
    """
    origins: dict[str, Path] = {}
    for name in dict.fromkeys(("silva", entry.target.split(":")[0].split(".")[0])):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue  # the class lives in one of its own requirements
        origin = Path(spec.origin).resolve()
        source = origin.parent if origin.name == "__init__.py" else origin
        origins[source.name] = source
    facts = "\n".join(f"{name} {source}" for name, source in sorted(origins.items()))
    folder = home() / "links" / hashlib.sha256(facts.encode()).hexdigest()[:12]
    if folder.is_dir():
        return folder
    making = folder.with_name(f"{folder.name}.{os.getpid()}")
    try:
        making.mkdir(parents=True)
        for name, source in origins.items():
            (making / name).symlink_to(source)
        making.rename(folder)
    except OSError as error:
        shutil.rmtree(making, ignore_errors=True)
        if not folder.is_dir():  # else another process was quicker
            raise InstallError(f"environment {entry.name}: cannot write {folder}: {error.strerror}") from error
    return folder


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"
