"""Recipe: what a Dockerfile builds, as far as it can be built without docker.

    Dockerfile ─▶ Recipe: COPY and RUN steps in order, packages, variables, where to start ─▶ World carries it out

A stock python, debian or ubuntu image stands for this machine's own tools; packages of Debian that are not installed
here, of Python and of Node are fetched (`debian`, `software`, `node`). What needs more (other images, users,
several stages) is refused by name: nothing is left out in silence.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator

import msgspec

from silva.envs.gyms.terminal import debian, software
from silva.envs.gyms.terminal import tools_of_tests as tools
from silva.envs.gyms.terminal.copying import chosen
from silva.envs.gyms.terminal.harbor import HarborTask, Machine, unknown
from silva.envs.gyms.terminal.shell_line import programs
from silva.errors import UsageError
from silva.tree import Record

STOCK = re.compile(
    r"(docker\.io/)?(library/)?(python|debian|ubuntu)(:[\w.-]+)?(@sha256:[0-9a-f]{64})?"
    r"|ghcr\.io/laude-institute/t-bench/(ubuntu|python)-[\w.-]+(:\w+)?"
)
_FILE_COMMANDS = """
. : [ awk base64 basename bash cat cd chmod cp cut date dirname echo egrep env exit export false find fgrep grep gunzip
gzip head install ln ls mkdir mktemp mv printf python3 pwd rm rmdir sed seq set sh sleep sort split tail tar tee test
touch tr true truncate umask uniq unzip wc xargs
"""
SIMPLE = frozenset(_FILE_COMMANDS.split())
"""Programs that a RUN may start: they make and change files, and are on every machine."""
_STANDING = ("/root", "/tmp", "/logs", "/tests")
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib64", "etc", "proc", "dev", "sys", "boot", "run")
_IGNORED = {"LABEL", "EXPOSE", "CMD", "MAINTAINER", "STOPSIGNAL"}


class Refused(UsageError):
    """A task that cannot be played without docker; the message says what it needs."""


class Step(Record, frozen=True, kw_only=True):
    """One step: files of environment/ (`sources`) to a place, or a `command` in a folder. Paths are the image's."""

    line: int
    sources: tuple[str, ...] = ()
    target: str = ""
    command: str = ""
    folder: str = "/"


class Recipe(Record, frozen=True, kw_only=True):
    """All steps; `root`: the topmost folder that the task works in; `folder`: the one it starts in; `others`: more
    folders of the image that it has files in; `debian`, `python`, `node`: the packages it needs."""

    steps: tuple[Step, ...] = ()
    root: str = "/workspace"
    folder: str = "/workspace"
    variables: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    others: tuple[str, ...] = ()
    debian: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    node: tuple[str, ...] = ()


def recipe(task: HarborTask) -> Recipe:
    """What to do to make a task's world.

    Raises:
        Refused: it needs more than a sandbox has; the line names the task and what it needs.
    """
    settings = task.settings()
    machine = settings.environment
    _playable(task, machine, bool(settings.steps))
    file = task.environment.get("Dockerfile")
    if file is not None:
        made = _Reading(task).recipe(file.content.decode(errors="replace"))
    else:
        image = machine.docker_image or "debian"
        if not STOCK.fullmatch(image):
            raise Refused(f"task {task.name}: task.toml: image {image} is no stock python or debian: it needs docker")
        place = machine.workdir or "/workspace"
        steps = (Step(line=0, sources=(".",), target=f"{place}/", folder=place),) if task.environment else ()
        made = Recipe(steps=steps, root=place, folder=place)
    return msgspec.structs.replace(made, variables={**made.variables, **machine.env})


def _playable(task: HarborTask, machine: Machine, several: bool) -> None:
    """Refuse what no Dockerfile is needed to see."""
    why = ""
    fields = unknown(task.document)
    if fields:
        why = f"task.toml: {', '.join(fields)}: not understood, so that nothing here would heed it"
    elif (machine.os or "linux") != "linux":
        why = f"task.toml: environment.os is {machine.os}"
    elif task.settings().verifier.environment_mode not in (None, "shared"):
        why = "task.toml: verifier.environment_mode: tests run on the task's own files here (shared)"
    elif task.document.get("artifacts"):
        why = "task.toml: artifacts are not collected"
    elif several:
        why = "task.toml: several steps in one task are not played"
    elif machine.gpus:
        why = "task.toml: it asks for a GPU"
    elif machine.mcp_servers:
        why = "task.toml: it asks for MCP servers"
    elif any(name.rsplit("/", 1)[-1].startswith("docker-compose.") for name in task.environment):
        why = "environment/docker-compose.yaml: several containers need docker"
    elif ".dockerignore" in task.environment:
        why = "environment/.dockerignore is not understood: leave the files themselves out"
    elif "test.sh" not in task.tests:
        why = "there is no tests/test.sh"
    elif any("${" in value for value in (*machine.env.values(), *task.settings().verifier.env.values())):
        why = "task.toml: env takes a variable of the caller's; none are given to a sandbox"
    else:
        why = tools.unknown(task.tests["test.sh"].content.decode(errors="replace"))
    if why:
        raise Refused(f"task {task.name}: {why}")


class _Reading:
    """A Dockerfile being read from top to bottom."""

    def __init__(self, task: HarborTask) -> None:
        self._task = task
        self._steps: list[Step] = []
        self._folders: list[str] = []
        self._variables: dict[str, str] = {}
        self._stages = 0
        self._debian: list[str] = []
        self._python: list[str] = []
        self._node: list[str] = []
        self._paths: list[str] = []

    def recipe(self, text: str) -> Recipe:
        for line, word, rest in _instructions(text):
            if word in _IGNORED:
                continue
            read = getattr(self, f"_{word.lower()}", None)
            if read is None:
                self._refuse(line, f"{word} needs docker")
            else:
                read(line, rest)
        if not self._stages:
            self._refuse(1, "there is no FROM")
        if not self._folders:
            self._refuse(1, "there is no WORKDIR: name the folder that the task works in")
        # The topmost of the folders worked in that the last one lies in.
        root = min((each for each in self._folders if f"{self._folders[-1]}/".startswith(f"{each}/")), key=len)
        if lacks := debian.unknown(tuple(dict.fromkeys(self._debian))):
            self._refuse(1, f"neither this machine nor its apt has all packages: apt-get install {' '.join(lacks)}")
        return Recipe(
            steps=tuple(self._steps),
            root=root,
            folder=self._folders[-1],
            variables=self._variables,
            others=self._others(root),
            debian=tuple(dict.fromkeys(self._debian)),
            python=tuple(dict.fromkeys(self._python)),
            node=tuple(dict.fromkeys(self._node)),
        )

    def _others(self, root: str) -> tuple[str, ...]:
        """The folders of the image besides its own that something is put into."""
        found: dict[str, None] = {}
        for path in (*self._folders, *self._paths):
            parts = path.split("/")
            top = "/".join(parts[: 3 if parts[1] in ("home", "var", "srv", "mnt") else 2])
            if top in _STANDING or path == root or path.startswith((f"{root}/", "/var/tmp/", "/var/tmp")):
                continue
            if parts[1] in _SYSTEM or top in ("/home", "/var", "/"):
                self._refuse(1, f"{path} lies outside {root}, and is the system's: it needs docker")
            found[top] = None
        return tuple(found)

    def _from(self, line: int, rest: str) -> None:
        words = [word for word in rest.split() if not word.startswith("--")]
        self._stages += 1
        if self._stages > 1:
            self._refuse(line, "a second FROM: several stages need docker")
        if not words or not STOCK.fullmatch(words[0]):
            self._refuse(line, f"image {words[0] if words else ''} is no stock python or debian: it needs docker")

    def _workdir(self, line: int, rest: str) -> None:
        place = posixpath.normpath(posixpath.join(self._here, self._filled(line, rest.strip("\"'"))))
        if place == "/":
            self._refuse(line, "WORKDIR / is the whole machine: name a folder of the task's own")
        self._folders.append(place)

    def _env(self, line: int, rest: str) -> None:
        pairs = re.findall(r"""(\w+)=("(?:[^"\\]|\\.)*"|'[^']*'|\S*)""", rest)
        if not pairs:
            name, _, value = rest.partition(" ")
            pairs = [(name, value.strip())]
        for name, value in pairs:
            plain = value[1:-1] if value[:1] in ('"', "'") and value[-1:] == value[:1] and len(value) > 1 else value
            self._variables[name] = self._filled(line, plain)

    def _arg(self, line: int, rest: str) -> None:
        name, equals, value = rest.partition("=")
        if not equals:
            self._refuse(line, f"ARG {name} has no value")
        self._variables.setdefault(name.strip(), self._filled(line, value.strip("\"'")))

    def _user(self, line: int, rest: str) -> None:
        if rest.split(":")[0] not in ("root", "0"):
            self._refuse(line, f"USER {rest}: a sandbox has one user")

    def _copy(self, line: int, rest: str) -> None:
        words = json.loads(rest) if rest.startswith("[") else rest.split()
        if any(word.startswith("--from") for word in words) or any(word.startswith("<<") for word in words):
            self._refuse(line, "COPY from another image, or of text in place, needs docker")
        words = [self._filled(line, word) for word in words if not word.startswith("--")]
        if len(words) < 2:
            self._refuse(line, "COPY takes files and a place")
        *sources, target = words
        for source in sources:
            path = posixpath.normpath(source).lstrip("/")
            if "*" in source or "?" in source or "[" in source:
                self._refuse(line, f"COPY {source}: name the files, patterns are not understood")
            if path != "." and path not in self._task.environment and not self._below(path):
                self._refuse(line, f"COPY {source}: environment/ has no such file")
        whole = posixpath.normpath(posixpath.join(self._here, target))
        self._paths.append(whole)
        many = len(sources) > 1 or target.endswith("/") or target == "."
        self._steps.append(
            Step(
                line=line, sources=tuple(sources), target=f"{whole.rstrip('/')}/" if many else whole, folder=self._here
            )
        )

    def _add(self, line: int, rest: str) -> None:
        if re.search(r"https?://|git@|\.(tar|tgz|gz|xz|bz2)\b", rest):
            self._refuse(line, "ADD of an archive or an address needs docker")
        self._copy(line, rest)

    def _run(self, line: int, rest: str) -> None:
        if rest.startswith("["):
            import shlex

            rest = shlex.join(json.loads(rest))
        rest = re.sub(r"^(--\S+\s+)+", "", rest)
        try:
            needs = software.needed(rest, self._copied)
        except ValueError as error:
            self._refuse(line, f"RUN: {error}")
            return
        self._debian += needs.debian
        self._python += needs.python
        self._node += needs.node
        rest = needs.rest
        if not rest:
            return
        if "<<" in rest:
            self._refuse(line, "RUN of text in place (<<) is not understood: copy a script")
        for words in programs(rest):
            if words[0] not in SIMPLE:
                self._refuse(line, f"RUN starts {words[0]}: only simple file commands can be run")
        self._paths += re.findall(r"(?<![\w./~$*-])/[a-z][\w./-]*", rest)
        self._steps.append(Step(line=line, command=rest, folder=self._here))

    def _copied(self, path: str) -> str | None:
        """The text of a file of the task's that stands at a path of the image by now; None where none does."""
        whole = posixpath.normpath(posixpath.join(self._here, path))
        for step in reversed(self._steps):
            if (file := chosen(self._task.environment, step.sources, step.target).get(whole)) is not None:
                return file.content.decode(errors="replace")
        return None

    @property
    def _here(self) -> str:
        return self._folders[-1] if self._folders else "/"

    def _below(self, path: str) -> bool:
        return any(name.startswith(f"{path}/") for name in self._task.environment)

    def _filled(self, line: int, text: str) -> str:
        def value(found: re.Match[str]) -> str:
            name = found[1] or found[2]
            if name not in self._variables:
                self._refuse(line, f"${name} has no value here")
            return self._variables[name]

        return re.sub(r"\$(?:\{(\w+)\}|(\w+))", value, text)

    def _refuse(self, line: int, why: str) -> None:
        raise Refused(f"task {self._task.name}: environment/Dockerfile line {line}: {why}")


def _instructions(text: str) -> Iterator[tuple[int, str, str]]:
    """Instructions with the line they begin on, continued lines joined, comments dropped."""
    held, began = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        began = began or number
        if line.endswith("\\"):
            held += f"{line[:-1]} "
            continue
        word, _, rest = f"{held}{line}".strip().partition(" ")
        yield began, word.upper(), rest.strip()
        held, began = "", 0
    if held:
        word, _, rest = held.strip().partition(" ")
        yield began, word.upper(), rest.strip()
