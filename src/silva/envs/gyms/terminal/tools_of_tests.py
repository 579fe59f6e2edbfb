"""What tests expect of a machine with a network: `uvx`, `pip`, `apt-get` and `curl … | sh`, answered without one.

    test.sh ─▶ the packages it names ─▶ fetched with the task's own, once ─▶ uvx … pytest = that pytest, by python3

Public tasks' tests begin by installing uv and have it bring pytest. Here what they name is there already: the commands
that would fetch it do nothing, and `uvx` and `uv run` run what follows their options.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from silva.envs.gyms.terminal import debian, software
from silva.envs.gyms.terminal.harbor import HarborTask

_BRINGS_UV = re.compile(
    r"curl\s[^|;&]*astral\.sh/uv/[^|;&]*\|\s*(sh|bash)\b[^\n]*|source\s+\"?\$HOME/\.local/bin/env\"?"
)
_WITH = ("-w", "--with")
_VALUED = ("-p", "--python", "--index-url", "--from", *_WITH)
_NOTHING = "#!/bin/sh\nexit 0\n"
_PYTEST = '#!/bin/sh\nexec /usr/bin/python3 -m pytest -p no:cacheprovider "$@"\n'
_RUNS = """#!/bin/sh
# uvx and uv run: what follows the options, by this machine's Python and the packages that were fetched before
[ "$1" = run ] && shift
[ "$1" = pip ] || [ "$1" = init ] || [ "$1" = add ] || [ "$1" = venv ] || [ "$1" = --version ] && exit 0
while [ $# -gt 0 ]; do
  case "$1" in
    -p|--python|-w|--with|--from|--index-url) shift 2;;
    -*) shift;;
    *) break;;
  esac
done
case "$1" in
  python|python3) shift; exec /usr/bin/python3 "$@";;
  pytest) shift; exec /usr/bin/python3 -m pytest -p no:cacheprovider "$@";;
  *) exec "$@";;
esac
"""


def unknown(script: str) -> str:
    """What of a test script installs software in a way that is not understood; "" where nothing does."""
    for number, line in _lines(script):
        try:
            needs = software.needed(line)
        except ValueError as error:
            return f"tests/test.sh line {number}: {error}"
        if lacks := debian.unknown(tuple(each for each in needs.debian if each != "curl")):
            return f"tests/test.sh line {number}: neither this machine nor its apt has {' '.join(lacks)}"
        if re.search(r"\b(curl|wget)\b[^|;&]*(https?:)?//(?!localhost|127\.0\.0\.1)\S+", needs.rest):
            return f"tests/test.sh line {number} downloads something ({line.strip()[:60]}), and there is no network"
    return ""


def packages(task: HarborTask) -> tuple[str, ...]:
    """The packages of Python that a task's tests name."""
    script = task.tests["test.sh"].content.decode(errors="replace")
    found: list[str] = []
    for _, line in _lines(script):
        found += software.needed(line).python
        words = shlex.split(line, comments=True) if re.search(r"\buvx?\b", line) else []
        names = [words[place + 1] for place, word in enumerate(words[:-1]) if word in _WITH]
        found += [name for name in names if name]
        if words and words[0] == "uvx" and not any(name.startswith("pytest") for name in names) and "pytest" in words:
            found.append("pytest")
        found += [word for word in words if word.startswith("pytest==")]
        if words[:2] == ["uv", "add"]:
            found += [word for word in words[2:] if not word.startswith("-")]
    if re.search(r"\bpytest\b", script) and not any(re.match(r"pytest(\W|$)", each) for each in found):
        found.append("pytest")
    return tuple(dict.fromkeys(each.replace("@", "==") if "==" not in each else each for each in found))


def of_debian(task: HarborTask) -> tuple[str, ...]:
    """The packages of Debian that a task's tests name; curl fetches nothing here."""
    script = task.tests["test.sh"].content.decode(errors="replace")
    return tuple(each for _, line in _lines(script) for each in software.needed(line).debian if each != "curl")


def laid_out(folder: Path) -> None:
    """Write the commands into a folder that tests find first. Raises OSError."""
    folder.mkdir(exist_ok=True)
    texts = dict.fromkeys(("apt-get", "apt", "pip", "pip3"), _NOTHING) | dict.fromkeys(("uv", "uvx"), _RUNS)
    texts |= {"pytest": _PYTEST, "py.test": _PYTEST}
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def _lines(script: str) -> Iterator[tuple[int, str]]:
    held, began = "", 0
    for number, raw in enumerate(script.splitlines(), 1):
        line = raw.strip()
        if line.startswith("#") and not held:
            continue
        began = began or number
        if line.endswith("\\"):
            held += f"{line[:-1]} "
            continue
        whole, held = _BRINGS_UV.sub("true", f"{held}{line}"), ""
        if re.match(
            r"(apt-get|apt|pip3?|python3? -m pip|uvx?|curl|wget|npm)\b|.*(&&|;)\s*(apt-get|pip3?|curl|wget)\b", whole
        ):
            yield began, whole
        began = 0


def told(script: str) -> str:
    """A test script as it is run here: uv is there already."""
    return _BRINGS_UV.sub("true", script)
