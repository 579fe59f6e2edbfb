"""Packages of Debian that this machine lacks: fetched once, unpacked into a layer, laid over a sandbox's /usr.

    apt-get install a ─▶ lacking ─▶ apt-get --download-only (with what they depend on) ─▶ dpkg-deb -x ─▶ FOLDER/usr

They come by apt with this machine's own configuration, lists and signatures, without root: nothing is installed here.
Scripts of packages are not run and what they only recommend is not fetched, so users, services and indices that a
script would make are not there (alternatives that it spells out are); what needs one is found out where it is used.
"""

from __future__ import annotations

import functools
import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from silva.envs.gyms.terminal.packages import fetched as packages_fetched
from silva.errors import MissingError

_STATUS = Path("/var/lib/dpkg/status")
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_BESIDE = ("etc", "opt")
_WORDS = ("-qq", "-y", "--no-install-recommends", "--download-only", "-o", "Debug::NoLocking=1")
_ALONE = ("-o", "APT::Sandbox::User=root", "-o", "DPkg::Options::=--force-not-root")
_UNPACK_SECONDS = 300.0


def lacking(packages: tuple[str, ...]) -> list[str]:
    """Which of Debian's packages this machine has not."""
    if not packages or shutil.which("dpkg-query") is None:
        return list(packages)
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\n", *packages],
        capture_output=True,
        text=True,
        check=False,
    )
    here = {line.split()[0] for line in done.stdout.splitlines() if line.split()[1:2] == ["ii"]}
    return [package for package in packages if package not in here]


def unknown(packages: tuple[str, ...]) -> list[str]:
    """Which of the packages this machine neither has nor knows where to fetch."""
    lacks = lacking(packages)
    return [package for package in lacks if package not in names()] if lacks else []


@functools.cache
def names() -> frozenset[str]:
    """The packages that this machine's apt knows. Cached: to look takes a second."""
    if shutil.which("apt-cache") is None or shutil.which("dpkg-deb") is None:
        return frozenset()
    done = subprocess.run(["apt-cache", "pkgnames"], capture_output=True, text=True, check=False)
    return frozenset(done.stdout.split())


def fetched(packages: tuple[str, ...], name: str) -> Path | None:
    """The layer of those of these packages that this machine lacks, fetched where nobody has yet; None for none.
    Blocks.

    Raises:
        MissingError: they cannot be had; the line names the task.
    """
    wanted = sorted(set(lacking(packages)))
    if not wanted:
        return None
    if any(shutil.which(program) is None for program in ("apt-get", "dpkg-deb")):
        raise MissingError(f"task {name} needs packages of Debian, and there is no apt-get here: {' '.join(wanted)}")
    # What apt fetches is what this machine lacks of it: with other packages here, other ones come.
    machine = hashlib.blake2b(_STATUS.read_bytes(), digest_size=8).hexdigest()

    def command(new: Path) -> list[str]:
        archives = new / "archives"
        (archives / "partial").mkdir(parents=True)
        return ["apt-get", *_WORDS, *_ALONE, "-o", f"Dir::Cache::archives={archives}", "install", *wanted]

    return packages_fetched(name, f"debian {machine}", wanted, "apt-get", command, _why, _unpacked)


def beside(layer: Path) -> Iterator[tuple[Path, str]]:
    """What a layer has outside of /usr that a sandbox is shown: entries of /etc and /opt that this machine lacks."""
    for folder in _BESIDE:
        for entry in sorted(layer.glob(f"{folder}/*")):
            place = f"/{folder}/{entry.name}"
            if not Path(place).exists():
                yield entry, place


def _why(complaints: str) -> str:
    lines = [line for line in complaints.splitlines() if line.startswith("E: ")]
    return " ".join(line.removeprefix("E: ") for line in lines)[:300] or complaints.strip()[-300:]


def _alternatives(archive: Path) -> list[tuple[str, str]]:
    """The names under which a package's script would have its programs known: link and program, where it spells them
    out."""
    told = subprocess.run(["dpkg-deb", "--info", str(archive), "postinst"], capture_output=True, check=False)
    script = told.stdout.decode(errors="replace").replace("\\\n", " ")
    return re.findall(r"--(?:install|slave)\s+(/[\w./+-]+)\s+[\w.+-]+\s+(/[\w./+-]+)", script)


def _unpacked(new: Path) -> list[str]:
    """Unpack what came; the layer keeps the files, not the archives."""
    for place in _MERGED:  # packages may still name what this machine has as links into /usr
        if Path("/", place).is_symlink():
            (new / "usr" / place).mkdir(parents=True, exist_ok=True)
            (new / place).symlink_to(f"usr/{place}")
    (new / "usr").mkdir(exist_ok=True)
    came = sorted((new / "archives").glob("*.deb"))
    if not came:
        raise OSError("apt fetched no archives (where its sources say file: it copies none; copy: does)")
    for archive in came:
        tar = ["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "--no-same-permissions", "-C", str(new)]
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE) as files:
            subprocess.run(tar, stdin=files.stdout, check=True, timeout=_UNPACK_SECONDS)
        if files.returncode:
            raise OSError(f"{archive.name} is damaged")
        for link, target in _alternatives(archive):
            place = new / link.lstrip("/")
            if not place.exists() and not Path(link).exists() and (new / target.lstrip("/")).exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(target)
    shutil.rmtree(new / "archives")
    return ["==".join(archive.name.split("_")[:2]).replace("%3a", ":") for archive in came]
