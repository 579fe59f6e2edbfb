"""Packages of Node that a Dockerfile installs for everybody: fetched once, kept by their names' digest, lent.

    RUN npm install -g typescript@5.4 ─▶ Needed(node typescript@5.4) ─▶ npm, without scripts ─▶ /opt/node

They come by npm with this machine's own configuration. Scripts of packages are not run, so nothing of them runs outside
a sandbox; what needs one to be built is found out where it is used.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from silva.envs.gyms.terminal.packages import fetched as packages_fetched
from silva.errors import MissingError

PLACE = "/opt/node"
"""Where a sandbox finds its packages of Node."""
_NAME = re.compile(r"(@[a-z0-9][\w.-]*/)?[a-z0-9][\w.-]*(@[\w.^~*+-]+)?")
_QUIET = {"cache", "config", "set"}
_GLOBAL = {"-g", "--global", "--location=global"}


def named(words: list[str]) -> list[str]:
    """The packages that `npm …` installs for everybody; `words` are those behind `npm`.

    Raises:
        ValueError: it does something else; the message says what.
    """
    plain = [word for word in words if not word.startswith("-")]
    if not plain or plain[0] in _QUIET:
        return []
    if plain[0] not in ("install", "i", "add") or not _GLOBAL & set(words):
        raise ValueError(f"npm {' '.join(words[:3])}: packages of Node are installed for everybody alone (-g)")
    for word in plain[1:]:
        if not _NAME.fullmatch(word):
            raise ValueError(f"npm install {word}: give a package's name")
    return [word for word in plain[1:] if word.partition("@")[0] != "npm"]


def fetched(packages: tuple[str, ...], name: str) -> Path | None:
    """The folder of these packages, fetched where nobody has yet; None for none. Blocks.

    Raises:
        MissingError: they cannot be had; the line names the task.
    """
    if not packages:
        return None
    npm = shutil.which("npm")
    if npm is None:
        raise MissingError(f"task {name} needs packages of Node: apt-get install npm")
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    wanted = sorted(set(packages))

    def command(new: Path) -> list[str]:
        return [npm, "install", "--global", "--prefix", str(new), *quiet, *wanted]

    return packages_fetched(name, "node", wanted, "npm", command, _why, _versions)


def _why(complaints: str) -> str:
    return " ".join(complaints.replace("npm ERR!", "").replace("npm error", "").split())[:300]


def _versions(place: Path) -> list[str]:
    found: list[str] = []
    for file in sorted(place.glob("lib/node_modules/**/package.json")):
        package = json.loads(file.read_bytes())
        if "name" in package and "version" in package and file.parent.parent.name in ("node_modules",):
            found.append(f"{package['name']}@{package['version']}")
    return sorted(set(found))
