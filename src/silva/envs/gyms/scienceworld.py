"""ScienceWorld as an environment: a house with a laboratory in it, in text, and thirty kinds of experiment.

One turn: the agent calls `act` with a command, the simulator answers in words, and the reward is the score gained.
The simulator is a Java program. Simulators in one virtual machine disturb one another (with four at once, gold paths
went wrong in two of twelve tasks), so a host holds one instance; more at once are more hosts. Commands go straight to
the simulator's object (`step` and `getScore`): the package's Python wrapper also lists every valid action after every
step, which is four fifths of its time. Score and gold paths are the simulator's own.
"""

from __future__ import annotations

import importlib.util
import shutil
import threading
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any, ClassVar

from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.errors import MissingError, UsageError
from silva.tree import Message, Task, Tool, assistant, call, system, tool_result, user

SPLITS = ("test", "dev", "train")

MOST_COMMANDS = 1000
"""Commands an episode may take. The package's default of 100 moves cuts the gold paths of six of the thirty kinds; one
that watches a block slide takes 736."""

SILENT_TURNS = 3
"""So many messages in a row without a command end the episode."""

ACT = Tool(
    name="act",
    description="Carry out one command in the world and read what happens.",
    parameters={
        "type": "object",
        "properties": {"command": {"type": "string", "description": "The command, such as: open door to kitchen"}},
        "required": ["command"],
    },
)

_SYSTEM = """You are carrying out a science experiment in a simulated house. Give one command at a time with the \
tool `act`. OBJ stands for the name of a thing you can see, with its place where that is needed to tell two apart \
(metal pot in kitchen). These are all the commands:
{commands}
`focus on` tells the simulator which thing is your answer: use it only on what the task asks for. `wait` lets ten \
moments pass, `wait1` one. When a command is ambiguous you are shown a numbered list: answer with the number alone."""

_JAVA_OPTIONS = ["-Xmx2g", "-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2"]
"""A heap below the memory a host may have, and the same identity hash for every object.

The simulator keeps what a room holds in hash sets of objects without a hash of their own. With Java's usual random
identity hashes their order, and through it what is listed and even temperatures, differs from load to load; with
equal ones it is the order of insertion, and the same commands give the same words.
"""

_starting = threading.Lock()
_asking = threading.Lock()


@cache
def _machine() -> Any:
    """The process's one Java machine; it ends with the process."""
    if importlib.util.find_spec("scienceworld") is None:
        raise MissingError(
            "scienceworld: package scienceworld is not installed here: run `silva envs install scienceworld`"
        )
    if shutil.which("java") is None:
        raise MissingError("scienceworld: java is not on the path: install a Java runtime, 17 or later")
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
    from py4j.protocol import Py4JError
    from scienceworld.constants import BASEPATH, JAR_PATH

    try:
        port, token, process = launch_gateway(
            classpath=JAR_PATH,
            javaopts=_JAVA_OPTIONS,
            cwd=BASEPATH,
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
    except (Py4JError, OSError, ValueError) as error:
        raise MissingError(
            f"scienceworld: java does not start ({error}): install a Java runtime, 17 or later"
        ) from error
    parameters = GatewayParameters(auto_field=True, port=port, auth_token=token)
    return JavaGateway(gateway_parameters=parameters, java_process=process)


def _simulator() -> Any:
    with _starting:
        machine = _machine()
    return machine.jvm.scienceworld.runtime.pythonapi.PythonInterface()


@cache
def _oracle() -> Any:
    """A simulator that plays nothing: asked for lists and gold paths, by one thread at a time."""
    return _simulator()


@cache
def _kinds() -> tuple[str, ...]:
    with _asking:
        return tuple(_oracle().getTaskNames())


@cache
def _variations() -> dict[str, dict[str, tuple[int, ...]]]:
    """The benchmark's variations by kind of task and split."""
    with _asking:
        oracle = _oracle()
        result: dict[str, dict[str, tuple[int, ...]]] = {}
        for name in oracle.getTaskNames():
            oracle.load(name, 0, "", False)
            result[name] = {
                "train": tuple(oracle.getVariationsTrain()),
                "dev": tuple(oracle.getVariationsDev()),
                "test": tuple(oracle.getVariationsTest()),
            }
    return result


@lru_cache(maxsize=1024)
def _gold(name: str, variation: int, simplifications: str) -> tuple[str, ...]:
    with _asking:
        _oracle().load(name, variation, simplifications, True)
        return tuple(_oracle().getGoldActionSequence())


class ScienceWorld:
    """Thirty kinds of task, 7,207 variations.

    Args:
        simplifications: Comma-separated names the simulator knows (`easy` for all of them); "" for none.
        most_commands: Commands after which an episode is cut off.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        tools=True, snapshot="replay", max_turns=MOST_COMMANDS, parallel=1
    )
    threaded: ClassVar[bool] = True

    def __init__(self, simplifications: str = "", most_commands: int = MOST_COMMANDS) -> None:
        self._simplifications = simplifications
        self._most_commands = most_commands
        self._world: Any = _simulator()
        known = {"easy", *str(self._world.getPossibleSimplifications()).split(", ")}
        if wrong := [s for s in simplifications.split(",") if s and s not in known]:
            raise UsageError(f"scienceworld: no simplification {wrong[0]!r}: any of {', '.join(sorted(known))}")
        self._name = ""

    @classmethod
    def tasks(cls, split: str = "test") -> Iterator[Task]:
        """The benchmark's variations of one split, one of each kind in turn, so that any head of the list is varied.

        Raises:
            UsageError: no such split.
            MissingError: the package or Java is not installed.
        """
        if split not in SPLITS:
            raise UsageError(f"scienceworld: no split {split!r}: one of {', '.join(SPLITS)}")
        listed = {name: of_split[split] for name, of_split in _variations().items()}
        for place in range(max(map(len, listed.values()))):
            for name, variations in listed.items():
                if place < len(variations):
                    variation = variations[place]
                    yield Task(
                        id=f"scienceworld/{name}/{variation}",
                        env="scienceworld",
                        instruction=f"{name.replace('-', ' ')}, variation {variation}",
                        split=split,
                        tags=(name,),
                    )

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin the variation; the simulator draws its own numbers from it, so `seed` changes nothing.

        Raises:
            UsageError: no task of that id.
        """
        self._name, self._variation = self._found(task.id)
        self._world.load(self._name, self._variation, self._simplifications, False)
        self._world.reset()
        self._gold: list[str] | None = None
        self._score = 0.0
        self._commands = self._silent = 0
        self._ended = False
        around = self._world.step("look around")
        commands = ", ".join(self._world.getPossibleActions())
        return Observation(
            messages=(
                system(_SYSTEM.format(commands=commands)),
                user(f"{str(self._world.getTaskDescription()).strip()}\n\n{around}"),
            ),
            tools=(ACT,),
        )

    async def step(self, action: Message) -> Observation:
        """Carry out the commands in order; what is no command is answered in words."""
        self._playing()
        if self._ended:
            return Observation(done=True)
        if not action.tool_calls:
            self._silent += 1
            self._ended = self._silent >= SILENT_TURNS
            words = "Nothing happens. Call the tool `act` with a command."
            return Observation(messages=() if self._ended else (user(words),), done=self._ended)
        self._silent = 0
        results: list[Message] = []
        for made in action.tool_calls:
            try:
                arguments = made.parsed()
            except ValueError as error:
                results.append(tool_result(made.id, f"Error: {error}", made.name))
                self._commands += 1
                continue
            results.append(tool_result(made.id, self._carry_out(made.name, arguments.get("command")), made.name))
        before, self._score = self._score, float(self._world.getScore())
        completed = bool(self._world.getCompleted()) or self._score < 0  # below zero: failed for good
        truncated = not completed and self._commands >= self._most_commands
        self._ended = completed or truncated
        return Observation(messages=tuple(results), reward=self._score - before, done=self._ended, truncated=truncated)

    async def evaluate(self) -> Evaluation:
        """The simulator's score; a failed experiment (below zero) counts 0."""
        self._playing()
        score = min(1.0, max(0.0, self._score))
        metrics = {"commands": float(self._commands), "moves": float(self._world.getNumMoves())}
        return Evaluation(score=score, success=score == 1.0, metrics=metrics)

    async def close(self) -> None:
        """Let go of the simulator; the Java machine serves the other instances and ends with the process."""
        self._world = None
        self._name = ""

    async def expert(self) -> Message:
        """The next command of the simulator's gold path; when it is used up, looking around."""
        self._playing()
        if self._gold is None:
            self._gold = list(_gold(self._name, self._variation, self._simplifications))
        command = self._gold.pop(0) if self._gold else "look around"
        return assistant("", call("act", {"command": command}, f"call_{self._commands}"))

    async def null(self) -> Message:
        """Words and no command; three such messages end the episode at 0."""
        return assistant("I would rather not.")

    def _playing(self) -> None:
        if not self._name:
            raise UsageError("scienceworld: no task is being played: call reset first")

    def _found(self, task_id: str) -> tuple[str, int]:
        name, _, variation = task_id.removeprefix("scienceworld/").partition("/")
        if not variation.isdigit() or int(variation) >= self._most_variations(name):
            raise UsageError(f"scienceworld: no task {task_id!r}: see `silva envs show scienceworld`")
        return name, int(variation)

    def _most_variations(self, name: str) -> int:
        return int(self._world.getTaskMaxVariations(name)) if name in _kinds() else 0

    def _carry_out(self, tool: str, command: object) -> str:
        if self._commands >= self._most_commands or self._world.getCompleted():
            return "The experiment is over."
        self._commands += 1
        if tool != "act":
            return f"There is no tool {tool!r}: call `act` with a command."
        if not isinstance(command, str) or not command.strip():
            return "`act` needs `command`, a text that is not empty."
        return str(self._world.step(command.strip())).strip()
