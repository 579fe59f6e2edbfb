"""Software that a Dockerfile installs: what of it this machine has, and what is fetched once and lent to sandboxes.

    RUN apt-get install a && pip install b && mkdir c ─▶ Needed(debian a, python b), and what is left to run: mkdir c
    debian packages: `debian`                          python packages: wheels, kept by their names' digest, /opt/python
    pip install -r FILE: the task's own file           npm install -g: `node`

Wheels alone are taken: to unpack one runs nothing of it. They come by pip with this machine's own configuration, once;
after that no network is needed.
"""

from __future__ import annotations

import posixpath
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from silva.envs.gyms.terminal import node
from silva.envs.gyms.terminal.packages import fetched as packages_fetched
from silva.errors import MissingError
from silva.tree import Record

PLACE = "/opt/python"
"""Where a sandbox finds its Python packages."""
INTERPRETER = "/usr/bin/python3"
_VALUED = {"-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--timeout", "--retries", "--target", "-t"}
_QUIET = {"update", "clean", "autoclean", "autoremove", "upgrade"}
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*(\[[\w,.-]+\])?((==|>=|<=|~=|!=|<|>)[\w.*+!,<>=~-]+)?")
_OURS = {"python", "python3", "python3-pip", "python3-venv", "python3-full", "python3-dev", "python-is-python3", "pip"}


class Needed(Record, frozen=True, kw_only=True):
    """What a line needs, and the line without that."""

    debian: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    rest: str = ""


def needed(line: str, file: Callable[[str], str | None] = lambda path: None) -> Needed:
    """Take the installing out of a shell line.

    Args:
        line: what a shell would read.
        file: the text of a file of the image (for `pip install -r`); None where there is none.

    Raises:
        ValueError: it installs in a way that is not understood; the message says which.
    """
    if not re.search(r"\b(apt-get|apt|pip3?|uv|npm|conda)\b", line):
        return Needed(rest=line)
    debian: list[str] = []
    python: list[str] = []
    javascript: list[str] = []
    left: list[str] = []
    for piece in re.split(r"\s*(?:&&|;)\s*", line.strip()):
        words = [word for word in shlex.split(piece) if not re.fullmatch(r"[A-Z_]+=\S*", word)]
        if not words:
            continue
        if words[0] in ("apt-get", "apt"):
            debian += _apt(words[1:])
        elif (pip := _pip(words, file)) is not None:
            python += pip
        elif words[:2] == ["rm", "-rf"] and all(
            word.startswith(("/var/lib/apt", "/root/.cache")) for word in words[2:]
        ):
            continue
        elif words[:2] == ["ln", "-s"] or words[:2] == ["ln", "-sf"]:
            if not words[-1].startswith(("/usr/bin/python", "/usr/local/bin/python", "/usr/bin/pip")):
                left.append(piece)
        elif words[0] == "npm":
            javascript += node.named(words[1:])
        elif words[0] == "conda":
            raise ValueError(
                f"conda {' '.join(words[1:3])}: packages of Debian, wheels of Python and packages of Node alone are "
                "installed"
            )
        else:
            left.append(piece)
    return Needed(debian=tuple(debian), python=tuple(python), node=tuple(javascript), rest=" && ".join(left))


def _apt(words: list[str]) -> list[str]:
    plain = [word for word in words if not word.startswith("-")]
    if not plain or plain[0] in _QUIET:
        return []
    if plain[0] != "install":
        raise ValueError(f"apt-get {plain[0]} is not understood")
    return [word.partition("=")[0].partition(":")[0] for word in plain[1:] if word not in _OURS]


def _pip(words: list[str], file: Callable[[str], str | None]) -> list[str] | None:
    if words[0] in ("python", "python3") and words[1:3] == ["-m", "pip"]:
        words = words[2:]
    if words[:2] == ["uv", "pip"]:
        words = words[1:]
    if words[0] not in ("pip", "pip3"):
        return None
    found: list[str] = []
    skip, listed = False, False
    if "install" not in words[:3]:
        return []  # of its cache and configuration, which nobody has
    for word in words[words.index("install") + 1 :]:
        if listed:
            found += _listed(word, file)
            listed = False
        elif skip:
            skip = False
        elif word in ("-r", "--requirement"):
            listed = True
        elif found_in := re.fullmatch(r"(?:-r|--requirement=)(.+)", word):
            found += _listed(found_in[1], file)
        elif word in ("-e", "--editable", "-c", "--constraint"):
            raise ValueError(f"pip install {word}: name the packages")
        elif word in _VALUED:
            skip = True
        elif not word.startswith("-"):
            if not _NAME.fullmatch(word):
                raise ValueError(f"pip install {word}: give a package's name")
            if word.lower() not in ("pip", "setuptools", "wheel"):
                found.append(word)
    return found


def _listed(path: str, file: Callable[[str], str | None], deep: int = 0) -> list[str]:
    """The packages that a file of requirements names."""
    text = file(path)
    if text is None or deep > 4:
        raise ValueError(f"pip install -r {path}: no file of the task's is there by then")
    found: list[str] = []
    for number, raw in enumerate(text.replace("\\\n", " ").splitlines(), 1):
        line = re.sub(r"(^|\s)#.*", "", raw).strip()
        if not line:
            continue
        if more := re.fullmatch(r"(?:-r|--requirement)[ =]+(\S+)", line):
            found += _listed(posixpath.join(posixpath.dirname(path), more[1]), file, deep + 1)
            continue
        name, _, marker = line.partition(";")
        name = re.sub(r"\s+", "", name)
        if not _NAME.fullmatch(name):
            raise ValueError(f"pip install -r {path}: line {number}, {line[:60]}: give a package's name")
        if name.lower() not in ("pip", "setuptools", "wheel"):
            found.append(f"{name}; {marker.strip()}" if marker.strip() else name)
    return found


def fetched(packages: tuple[str, ...], name: str) -> Path | None:
    """The folder of these packages of Python, fetched where nobody has yet; None for none. Blocks.

    Raises:
        MissingError: they cannot be had; the line names the task.
    """
    pinned = {re.split(r"\W", each)[0].lower() for each in packages if not re.fullmatch(r"[\w.-]+", each)}
    wanted = sorted({each for each in packages if each.lower() not in pinned})
    if not wanted:
        return None
    version = subprocess.run(
        [INTERPRETER, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    wheels = ["--quiet", "--no-input", "--only-binary=:all:", "--no-compile", "--python-version", version]

    def command(new: Path) -> list[str]:
        return [_with_pip(name), "-m", "pip", "install", *wheels, "--target", str(new), *wanted]

    return packages_fetched(name, version, wanted, "pip", command, _why, _settled)


def _why(complaints: str) -> str:
    line = next((line for line in complaints.splitlines() if line.startswith("ERROR")), complaints.strip()[-300:])
    return line.removeprefix("ERROR: ")


def _settled(new: Path) -> list[str]:
    for script in new.glob("bin/*"):  # they name the Python that pip ran on
        first, _, rest = script.read_bytes().partition(b"\n")
        if first.startswith(b"#!") and b"python" in first:
            script.write_bytes(f"#!{INTERPRETER}\n".encode() + rest)
    return sorted(each.name.removesuffix(".dist-info").replace("-", "==", 1) for each in new.glob("*.dist-info"))


def _with_pip(name: str) -> str:
    """A Python that has pip: this one, the one behind it, or the system's. Raises MissingError."""
    behind = Path(sys.base_prefix, "bin", "python3")
    for interpreter in (sys.executable, str(behind), INTERPRETER):
        if Path(interpreter).exists():
            done = subprocess.run([interpreter, "-c", "import pip"], capture_output=True, check=False)
            if done.returncode == 0:
                return interpreter
    raise MissingError(f"task {name} needs packages of Python, and no Python here has pip: apt-get install python3-pip")
