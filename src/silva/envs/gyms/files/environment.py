"""Files: the environment. A task's files are drawn at its beginning and stand in memory; tools read and write them.

    reset(task) ─▶ drawn(files) ─▶ question, tools ─▶ step: calls, or one code action ─▶ … ─▶ answer ─▶ check

A turn is tool calls, or words with a block of code (```python … ```) whose statements call the tools; words without
either are the answer. Options: `backend` (of the sandbox for Python), `images` (adds view_image, for models that see)
and `tools` (the names of those that are offered; all when empty). Metrics: `ans`, `files`, `tool` and `code`, each as
`NAME_asked` and `NAME_right` (see `silva.report.counted`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from silva.envs.gyms.files import synthesis
from silva.envs.gyms.files.checker import answered, overlap
from silva.envs.gyms.files.drawing.files import drawn
from silva.envs.gyms.files.effects import holds
from silva.envs.gyms.files.expert import following
from silva.envs.gyms.files.folder import Folder
from silva.envs.gyms.files.public import public, public_file
from silva.envs.gyms.files.tools.catalogue import offered
from silva.envs.gyms.files.tools.instrument import Bench
from silva.envs.gyms.files.walk import MOST_SHOWN, Walk, shown
from silva.envs.gyms.terminal.backend import borrow, give_back
from silva.envs.protocol import Achieved, Capabilities, Evaluation, Goal, Observation, Planted
from silva.errors import UsageError
from silva.tree import ImagePart, Json, Message, Task, TextPart, Tool, assistant, call, system, user

_CODE = re.compile(r"```(?:python|py)[ \t]*\n(.*?)```", re.DOTALL)
_RULES = system(
    "You work on files with tools; there is no network. Call tools, or write one block of code, ```python … ```, in"
    " which tools are functions and results stay under the names you give them. A tool call's result has a name too"
    " (r1, r2, … or what you ask for by the argument save_as), and an argument that begins with $ refers to it:"
    " $r1[0]['price']. When you know the answer, or the files are as they should be, call answer with a few words or"
    " a number."
)


class Files:
    """One folder of files and one wish. `place`: the folder or file of public tasks of a class made for it."""

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, images=True, snapshot="deepcopy", max_turns=30)
    own_random: ClassVar[bool] = True
    lists_all: ClassVar[bool] = False
    name: ClassVar[str] = "files"
    place: ClassVar[Path | None] = None
    attribute: ClassVar[str] = ""

    def __init__(self, *, backend: str = "namespaces", images: bool = False, tools: Sequence[str] = ()) -> None:
        self._tools = tuple(map(_saving, offered(images, tools)))
        self._backend = backend
        self._borrowed = False
        self._walk: Walk | None = None

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        """Silva's own tasks in three levels (`test`, `level1` to `level3`), or those of the folder this class is for.

        Raises:
            UsageError: no such split; or the folder is absent, damaged or of no known form.
        """
        if cls.place is not None:
            return public(cls.name, cls.place, split)
        from silva.envs.gyms.files.tasks import own

        return own(split)

    async def reset(self, task: Task, seed: int) -> Observation:
        """Draw the files; the task holds all there is to know, so the seed changes nothing.

        Raises:
            UsageError: the task describes no files, or a file that cannot be drawn or read.
        """
        goal = task.data.get("goal")
        self._data: Json = goal if isinstance(goal, dict) else task.data
        files = task.data.get("files")
        if not isinstance(files, dict) or not isinstance(self._data.get("check"), dict):
            raise UsageError(f"task {task.id}: data holds files and check; see docs/guides/files.md")
        self._first = {name: self._content(task.id, name, spec) for name, spec in files.items()}
        self._specs: dict[str, Json] = {name: spec for name, spec in files.items() if isinstance(spec, dict)}
        bench = Bench(Folder(self._first), sandbox=self._ground)
        self._walk = Walk(bench, frozenset(tool.name for tool in self._tools))
        self._plan = [dict(each) for each in self._data.get("solution") or ()]
        names = ", ".join(bench.folder.names()) or "none"
        words = str(self._data.get("words") or task.instruction)
        return Observation(messages=(_RULES, user(f"{words}\n\nFiles: {names}")), tools=self._tools)

    async def step(self, action: Message) -> Observation:
        """Carry out the calls, or the code; words without either are the answer."""
        walk = self._here
        walk.steps += 1
        walk.calls = 0
        if action.tool_calls:
            return await self._called(action)
        code = _CODE.search(action.text)
        if code is None:
            walk.ran += 1
            walk.answer = action.text if walk.answer is None else walk.answer
            return Observation(done=True)
        try:
            text = await walk.code(code[1])
            walk.ran += 1
        except UsageError as error:
            text = f"error: {error}"
        parts, blobs = self._seen(f"[output]\n{text[: MOST_SHOWN + 100]}")
        return Observation(messages=(Message(role="user", parts=parts),), done=walk.answer is not None, blobs=blobs)

    async def evaluate(self) -> Evaluation:
        """1 where the answer and the files are as the task wants them, else 0."""
        walk, check = self._here, self._data["check"]
        conditions: list[Json] = list(check.get("files") or ())
        reference = [str(each["tool"]) for each in self._data.get("solution") or () if each["tool"] != "answer"]
        reference = [str(tool) for tool in self._data.get("tools_wanted") or reference]
        right = walk.answer is not None and answered(walk.answer, check["answer"]) if "answer" in check else None
        met = [holds(condition, walk.bench.folder, self._first) for condition in conditions]
        metrics = {
            "code_asked": float(walk.steps),
            "code_right": float(walk.ran),
            "blocks": float(walk.codes),
            "blocks_ran": float(walk.codes_ran),
            "calls": float(len(walk.done)),
            "calls_failed": float(sum(not each.worked for each in walk.done)),
            "ans_asked": float(right is not None),
            "ans_right": float(bool(right)),
            "files_asked": float(len(met)),
            "files_right": float(sum(met)),
            "tool_asked": float(len(reference)),
            "tool_right": float(overlap([each.tool for each in walk.done if each.worked], reference)),
        }
        if right is None and not met:  # a task that only a person could judge
            return Evaluation(score=None, success=None, metrics=metrics)
        good = right is not False and all(met) and (walk.answer is not None)
        return Evaluation(score=float(good), success=good, metrics=metrics)

    async def expert(self) -> Message:
        """The next call of the task's solution that was not made yet, and its answer at the end."""
        found = await following(self._plan, self._here)
        if found is None:  # the solution did not lead to an answer
            return assistant("I cannot answer this.")
        return assistant("", call(*found, f"call{len(self._here.done) + 1}"))

    async def null(self) -> Message:
        """Say nothing."""
        return assistant()

    async def goals(self, task: Task) -> Sequence[Goal]:
        """The questions that the task's files allow."""
        return synthesis.goals_of(task.data.get("files") or {})

    async def achieved(self, task: Task, actions: Sequence[Message]) -> Sequence[Achieved]:
        """The questions that the actions answered, by something that they found out."""
        place = {"files": task.data.get("files") or {}, "check": {}}
        await self.reset(msgspec.structs.replace(task, data=place), 0)
        for turn, action in enumerate(actions, 1):
            if (await self.step(action)).done:
                goals = synthesis.goals_of(place["files"])
                return synthesis.achieved_by(self._here.done, self._here.answer, turn, goals)
        return ()

    async def task(self, task: Task, goal: Goal) -> Task:
        """The goal as a task on the same files; refused where something it needs is not there."""
        return synthesis.whole(task, goal)

    async def actions(self) -> Sequence[Message]:
        """Calls that read the files, ask what may be asked of them, or answer with the last result."""
        goals = synthesis.goals_of(self._specs)
        return synthesis.actions_at(self._here.bench.folder, goals, self._here.done)

    async def plant(self, surface: str, words: str) -> Planted:
        """Put words into a README beside the task's own files, which stay what they are."""
        if surface != "file" or self._walk is None:
            return Planted(why="this place has files, and no pages or windows")
        folder = self._walk.bench.folder
        name = "README.md"
        before = folder.read(name).decode("utf-8", errors="replace") + "\n" if name in folder else ""
        folder.write(name, f"{before}{words}\n".encode())
        return Planted(where=name, look=assistant("", call("read_text", {"path": name})))

    async def close(self) -> None:
        """Give back the sandbox, where there was one."""
        self._walk = None
        if self._borrowed:
            self._borrowed = False
            await give_back(self._backend, None, self)

    def __reduce__(self) -> tuple[Any, ...]:
        # By what it is called: a class made for a place cannot be found by its name.
        return _blank, (self.attribute,), self.__getstate__()

    def __getstate__(self) -> Json:
        """The files, the results and what was done; the sandbox is got anew."""
        kept = {name: value for name, value in self.__dict__.items() if name != "_ground_held"} | {"_borrowed": False}
        if self._walk is not None:
            kept["_walk"] = {**self._walk.__dict__, "bench": None}
            kept["_files"], kept["_names"] = self._walk.bench.folder.items(), self._walk.bench.names
        return kept

    def __setstate__(self, kept: Json) -> None:
        files, names = kept.pop("_files", None), kept.pop("_names", None)
        self.__dict__.update(kept)
        if files is not None:
            bench = Bench(Folder(files), names=names, sandbox=self._ground)
            self._walk = Walk(**{**kept["_walk"], "bench": bench})

    @property
    def _here(self) -> Walk:
        if self._walk is None:
            raise UsageError(f"{self.name}: no task is being played: call reset first")
        return self._walk

    async def _called(self, action: Message) -> Observation:
        walk = self._here
        answers: list[Message] = []
        blobs: dict[str, bytes] = {}
        ran = True
        for made in action.tool_calls:
            try:
                if walk.answer is not None:
                    raise UsageError("the task has ended")
                value = await walk.call(made.name, made.parsed())
                text = f"{walk.done[-1].name} =\n{shown(value)}"
            except (UsageError, ValueError) as error:
                text, ran = f"error: {error}", False
            parts, seen = self._seen(text)
            blobs |= seen
            answers.append(Message(role="tool", parts=parts, tool_call_id=made.id, name=made.name))
        walk.ran += ran
        return Observation(messages=tuple(answers), done=walk.answer is not None, blobs=blobs)

    def _seen(self, text: str) -> tuple[tuple[TextPart | ImagePart, ...], dict[str, bytes]]:
        """A text with the pictures that were looked at since the last one."""
        views, self._here.bench.views = self._here.bench.views, []
        blobs = {hashlib.sha256(view.content).hexdigest(): view for view in views}
        images = (ImagePart(hash=name, width=view.width, height=view.height) for name, view in blobs.items())
        return (TextPart(text=text), *images), {name: view.content for name, view in blobs.items()}

    async def _ground(self) -> Any:
        backend = await borrow(self._backend, None, self) if not self._borrowed else self._ground_held
        self._borrowed, self._ground_held = True, backend
        return backend

    def _content(self, task: str, name: str, spec: Any) -> bytes:
        try:
            if isinstance(spec, dict) and spec.get("kind") == "here":
                return public_file(self.place, str(spec.get("path")))
            return drawn(spec if isinstance(spec, dict) else {"kind": "txt", "text": str(spec)})
        except UsageError as error:
            raise UsageError(f"task {task}: file {name}: {error}") from error


def _saving(tool: Tool) -> Tool:
    """The tool with the argument that names its result."""
    if tool.name == "answer":
        return tool
    properties = {**tool.parameters["properties"], "save_as": {"type": "string"}}
    return msgspec.structs.replace(tool, parameters={**tool.parameters, "properties": properties})


def __getattr__(attribute: str) -> type[Files]:
    """The class for public tasks in one place: `NAME=PLACE`, as the entry writes it."""
    if attribute.startswith("__") or "=" not in attribute:
        raise AttributeError(attribute)
    return _placed(attribute)


@cache
def _placed(attribute: str) -> type[Files]:
    name, _, place = attribute.partition("=")
    return type("Files", (Files,), {"name": name, "place": Path(place), "attribute": attribute})


def _blank(attribute: str) -> Files:
    """An instance of nothing, to be given a state that was kept."""
    kind = _placed(attribute) if attribute else Files
    return kind.__new__(kind)
