"""What may be asked of a folder of files, and what was answered: the gym's part in making tasks of its places.

    files' descriptions ─▶ goals_of ─▶ totals, largest values, counts ─▶ Goal(words, {check, solution})
    goal's data ─▶ whole ─▶ files that can be drawn, tools that exist, an answer the question does not give away

A goal's data holds `check` and, where one is known, `solution`; a task that has it under `goal` is that goal in the
task's files. Goals are of what the descriptions say; whether the tools reach them is found out by acting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from silva.envs.gyms.files.checker import answered
from silva.envs.gyms.files.drawing.files import drawn
from silva.envs.gyms.files.effects import CONDITIONS
from silva.envs.gyms.files.folder import Folder
from silva.envs.gyms.files.tools.catalogue import INSTRUMENTS
from silva.envs.gyms.files.walk import Done, shown
from silva.envs.protocol import Achieved, Goal
from silva.errors import UsageError
from silva.tree import Json, Message, Task, assistant, call, digest

MOST_GOALS = 400
_MOST_STEPS = 60
_FEW = 12  # a column of text with more values than this is no grouping

Call = tuple[str, Json]


def goals_of(files: Mapping[str, Json]) -> list[Goal]:
    """The questions that tables and drawn scenes among the files allow, in a fixed order."""
    found: list[Goal] = []
    for path in sorted(files):
        spec = files[path]
        kind = spec.get("kind")
        if kind in ("xlsx", "csv"):
            rows = next(iter(spec["sheets"].values())) if "sheets" in spec else spec["rows"]
            found += _of_table(path, rows)
        elif kind == "docx":
            tables = [block["rows"] for block in spec["blocks"] if "rows" in block]
            found += [goal for number, rows in enumerate(tables, 1) for goal in _of_document(path, number, rows)]
        elif kind == "scene":
            found += _of_scene(path, spec["things"])
    return found[:MOST_GOALS]


def whole(task: Task, goal: Goal) -> Task:
    """The goal as a task in the place of another.

    Raises:
        UsageError: something that it needs is not there; the line says what.
    """
    data = goal.data
    check, solution = data.get("check"), data.get("solution") or []
    files = task.data.get("files")
    if not isinstance(files, dict):
        raise UsageError(f"{task.id} is no place of the files gym: it describes no files")
    if not isinstance(check, dict) or not (check.get("answer") or check.get("files")):
        raise UsageError("the goal has no check: neither an answer nor a file is wanted")
    if data.get("missing"):
        raise UsageError(f"files that the question needs are not described: {', '.join(map(str, data['missing']))}")
    _checked(check)
    folder = Folder()
    for name, spec in files.items():
        if not isinstance(spec, dict):
            raise UsageError(f"file {name} is not described")
        if spec.get("kind") != "here":
            folder.write(name, drawn(spec))
    if not isinstance(solution, list) or len(solution) > _MOST_STEPS:
        raise UsageError(f"the solution is no list of at most {_MOST_STEPS} calls")
    for number, each in enumerate(solution, 1):
        if not isinstance(each, dict) or not isinstance(each.get("arguments"), dict):
            raise UsageError(f"step {number} of the solution is no call")
        if each.get("tool") not in INSTRUMENTS and each.get("tool") != "answer":
            raise UsageError(f"step {number} of the solution: there is no tool {str(each.get('tool'))[:40]!r}")
    # Where a file has to be left, an answer alone is worth nothing.
    if not check.get("files") and answered(
        goal.words, {**check["answer"], "none": [], "most": 10_000, "numbers": 10_000}
    ):
        raise UsageError("the question gives its answer away")
    kept = {"words": goal.words, **data}
    made = {**{name: value for name, value in task.data.items() if name != "goal"}, "goal": kept}
    name = digest("files goal", msgspec.msgpack.encode(kept, order="sorted"))[:12]
    tags = tuple(dict.fromkeys(tag for tag in (*task.tags, goal.pattern) if tag))
    return msgspec.structs.replace(task, id=f"{task.id}/{name}", instruction=goal.words, data=made, tags=tags)


def achieved_by(done: Sequence[Done], answer: str | None, turn: int, goals: Sequence[Goal]) -> list[Achieved]:
    """The goals that an answer is right for, where a result before it says so: no guess counts."""
    if answer is None:
        return []
    found: list[Achieved] = []
    results = [each for each in done if each.worked and each.tool != "answer"]
    for goal in goals:
        check = goal.data["check"]["answer"]
        if answered(answer, check) and any(
            each.tool == goal.data["solution"][-2]["tool"] and answered(shown(each.value), check) for each in results
        ):
            # Later results are named by their place among the calls, so no action before the answer can be left out.
            found.append(Achieved(goal=goal, turn=turn, kept=tuple(range(turn))))
    return found


def actions_at(folder: Folder, goals: Sequence[Goal], done: Sequence[Done]) -> list[Message]:
    """Calls that make sense now: reading each file, what the place's questions begin with, answering with what the last
    result says."""
    calls: list[Call] = []
    for path in folder.names():
        for tool in _READING.get(path.rpartition(".")[2].lower(), ()):
            calls.append((tool, {"path": path}))
    for goal in goals[:100]:
        first = goal.data["solution"][0]
        calls.append((first["tool"], first["arguments"]))
    last = next((each for each in reversed(done) if each.worked), None)
    if last is not None:
        value = last.value
        single = isinstance(value, list) and len(value) == 1 and isinstance(value[0], list) and len(value[0]) == 1
        if single or isinstance(value, int | float | str):
            calls.append(("answer", {"text": f"${last.name}{'[0][0]' if single else ''}"}))
    return [assistant("", call(tool, arguments)) for tool, arguments in calls]


_READING: dict[str, tuple[str, ...]] = {
    "xlsx": ("list_sheets", "read_table"),
    "csv": ("read_table",),
    "docx": ("read_document", "document_table"),
    "pptx": ("read_slides",),
    "pdf": ("read_pdf",),
    "txt": ("read_text",),
    "png": ("locate", "count"),
}


def _of_table(path: str, rows: Sequence[Sequence[Any]]) -> Iterator[Goal]:
    header, body = list(rows[0]), rows[1:]
    for index, column in enumerate(header):
        values = [row[index] for row in body]
        if not values or not all(_is_number(value) for value in values):
            continue
        name = _quoted(str(column))
        yield _asked(
            f"What is the total of the column {column} in {path}?",
            sum(values),
            ("query_table", {"path": path, "sql": f"select round(sum({name}), 2) from t"}),
            "total of a column",
        )
        yield _asked(
            f"What is the largest value of the column {column} in {path}?",
            max(values),
            ("query_table", {"path": path, "sql": f"select max({name}) from t"}),
            "largest value",
        )
        for other, kind in enumerate(header):
            groups = sorted({row[other] for row in body if isinstance(row[other], str)})
            if not 1 < len(groups) <= _FEW or any(not isinstance(row[other], str) for row in body):
                continue
            for group in groups:
                where = f"{_quoted(str(kind))} = '{group.replace(chr(39), chr(39) * 2)}'"
                yield _asked(
                    f"What is the total of the column {column} over the rows of {path} whose {kind} is {group}?",
                    sum(row[index] for row in body if row[other] == group),
                    ("query_table", {"path": path, "sql": f"select round(sum({name}), 2) from t where {where}"}),
                    "total of a group",
                )


def _of_document(path: str, number: int, rows: Sequence[Sequence[Any]]) -> Iterator[Goal]:
    for index, column in enumerate(rows[0]):
        values = [row[index] for row in rows[1:]]
        if not values or not all(_is_number(value) for value in values):
            continue
        goal = _asked(
            f"What is the total of the column {column} in table {number} of {path}?",
            sum(values),
            ("document_table", {"path": path, "number": number}),
            "total in a document",
        )
        sums = {"tool": "calculate", "arguments": {"expression": f"sum([row[{index}] for row in r1[1:]])"}}
        last = {"tool": "answer", "arguments": {"text": "$r2"}}
        solution = [goal.data["solution"][0], sums, last]
        yield msgspec.structs.replace(goal, data={**goal.data, "solution": solution})


def _of_scene(path: str, things: Sequence[Json]) -> Iterator[Goal]:
    kinds = sorted({(str(each["colour"]), str(each["shape"])) for each in things})
    for colour, shape in kinds:
        plural = f"{shape}es" if shape.endswith("s") else f"{shape}s"
        yield _asked(
            f"How many {colour} {plural} are there in {path}?",
            sum(each["colour"] == colour and each["shape"] == shape for each in things),
            ("count", {"path": path, "what": f"{colour} {shape}"}),
            "count",
            "$r1",
        )


def _asked(words: str, value: float, ask: Call, pattern: str, found: str = "$r1[0][0]") -> Goal:
    plain = str(int(value)) if float(value) == int(value) else str(round(float(value), 2))
    solution = [{"tool": ask[0], "arguments": ask[1]}, {"tool": "answer", "arguments": {"text": found}}]
    check: Json = {"answer": {"all": [[plain]], "tolerance": 0 if isinstance(value, int) else 0.006, "numbers": 2}}
    return Goal(words=words, data={"check": check, "solution": solution}, pattern=pattern)


def _checked(check: Json) -> None:
    answer = check.get("answer")
    if answer is not None and not (isinstance(answer, dict) and isinstance(answer.get("all"), list) and answer["all"]):
        raise UsageError("the check's answer has no list `all` of what must occur")
    for condition in check.get("files") or ():
        if not isinstance(condition, dict) or "path" not in condition or not CONDITIONS & {*condition}:
            raise UsageError(f"a condition on a file is none of {', '.join(sorted(CONDITIONS))}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
