"""A writer for the files gym that asks any model: seeds ─▶ questions with the files each needs ─▶ files, check, steps.

Two questions are asked, as SPORT has it: first what somebody might ask and which files that takes, then what stands in
the files, what the right answer is, and which calls find it. The files are drawn by code from what the model describes;
its answer and its calls must come to the same when they are carried out, or validation refuses the task. Seeds are the
worlds of training alone: no test's words or files are ever shown.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from random import Random

import msgspec

from silva.envs.gyms.files.grammar.seeds import Theme
from silva.envs.gyms.files.tools.catalogue import TOOLS
from silva.envs.handle import EnvironmentHandle
from silva.envs.protocol import Goal
from silva.loops.roles.asking import Asker, Asks
from silva.loops.roles.asking import RoleError as Unusable
from silva.loops.roles.candidate import Candidate
from silva.loops.roles.embedded.files_writing import acts, placed, themes
from silva.loops.roles.registry import Implementation
from silva.rollout.acted import Acted
from silva.tree import Json, Record, Task

AT_ONCE = 4
"""Questions asked for at once."""

QUERIES = """Think of questions that people at {trade} might give to an assistant who has tools for files.

Names to use: {names}
Tools the assistant has: {tools}

Write {count} questions that differ in what they need. Each needs one or two files (xlsx, csv, docx, pptx, pdf, txt, a
scene: a picture of plain coloured shapes, or a sign: a picture of text), two to six calls of tools, and has one short
answer, a number or a name, that only the files tell. Name the files in the question. None of these, which are there
already: {known}

Answer with a JSON list of objects:
[{"words": the question, "needs": [{"path": file name, "kind": kind, "holds": what stands in it, in words}]}]"""

FILES = """An assistant with tools for files is to be given this question: {words}
It needs these files: {needs}

Tools: {tools}
A call's result has the name r1, r2, ... by its place among the calls. An argument that begins with $ is an expression
over these names: "$r1[0][0]", "$sum([row[1] for row in r2[1:]])"; in calculate's expression names stand without $.

Describe the files so that the question has exactly one answer, and give the calls that find it. Kinds of files:
{"kind": "xlsx", "sheets": {"name": [[header ...], [row ...]]}}; {"kind": "csv", "rows": [[...]]};
{"kind": "docx", "blocks": [{"heading": "..."}, {"text": "..."}, {"rows": [[...]]}]};
{"kind": "pptx", "slides": [{"title": "...", "lines": ["..."], "rows": [[...]], "notes": "..."}]};
{"kind": "pdf", "pages": [["line", ...]]}; {"kind": "txt", "text": "..."};
{"kind": "scene", "size": [700, 480], "things": [{"shape": "circle", "colour": "red", "at": [x, y], "size": 30}]}
with the shapes circle, square, rectangle, triangle, star, cross, none touching another; and, for a picture of text,
{"kind": "sign", "lines": ["a line", ["left", "right"]]}. Names of pictures end in .png.

Answer with one JSON object: {"files": {file name: description}, "answer": the right answer as text,
"wrong": [other answers that the files might tempt to], "tolerance": 0 or how far off a number may be,
"steps": [{"tool": name, "arguments": {...}}, ..., {"tool": "answer", "arguments": {"text": "$..."}}]}"""


class Need(Record, frozen=True, kw_only=True):
    """A file that a question needs."""

    path: str
    kind: str
    holds: str = ""


class Query(Record, frozen=True, kw_only=True):
    """A question before its files."""

    words: str
    needs: tuple[Need, ...] = ()


class Step(Record, frozen=True, kw_only=True):
    """A call of the solution."""

    tool: str
    arguments: Json


class Written(Record, frozen=True, kw_only=True):
    """Files, the answer and the calls that find it."""

    files: dict[str, Json]
    answer: str
    steps: tuple[Step, ...]
    wrong: tuple[str, ...] = ()
    tolerance: float = 0.0


class FilesEndpointOptions(Asks):
    """Whom it asks, and `themes`: worlds of training to draw seeds from (none: all)."""

    themes: tuple[str, ...] = ()


class FilesEndpointWriter(Implementation):
    """Questions on files, thought of by a model."""

    role, name, summary = (
        "writer",
        "files-endpoint",
        "questions on files and the files themselves, thought of by a model",
    )
    Options = FilesEndpointOptions

    async def write(
        self, env: EnvironmentHandle, place: Task, count: int, seed: int = 0, known: Collection[str] = ()
    ) -> list[Candidate]:
        """Candidates in places of their own. A question whose files could not be had is left out; what asking cost
        stands on the first that was made, and where none was, in the error."""
        said: FilesEndpointOptions = self.options
        chance = Random(f"files endpoint/{seed}/{place.id}")
        found: list[Candidate] = []
        asked = set(known)
        last: Unusable | None = None
        async with Asker("writer", self.name, said) as asker:
            for _ in range(2 * (count // AT_ONCE + 1)):
                if len(found) >= count:
                    break
                theme = chance.choice(themes(said.themes))
                wanted = min(AT_ONCE, count - len(found))
                answer = await asker.ask(QUERIES, _about(theme, wanted, asked), list[Query])
                deeds: tuple[Acted, ...] = (answer.acted,)
                for query in answer.value[:wanted]:
                    if not query.words.strip() or query.words in asked:
                        continue
                    asked.add(query.words)
                    try:
                        made = await asker.ask(FILES, _needed(query), Written)
                    except Unusable as error:  # the others may come out better
                        last, deeds = error, (*deeds, error.acted)
                        continue
                    found.append(_candidate(place.env, query, made.value, theme, (*deeds, made.acted)))
                    deeds = ()
        if not found and last is not None:
            raise last
        return found


def _about(theme: Theme, count: int, known: Collection[str]) -> dict[str, str]:
    return {
        "trade": theme.trade,
        "names": ", ".join((*theme.places, *theme.goods, *theme.people)),
        "tools": ", ".join(tool.name for tool in TOOLS),
        "count": str(count),
        "known": json.dumps(sorted(known)[:40], ensure_ascii=False),
    }


def _needed(query: Query) -> dict[str, str]:
    tools = [f"{tool.name}({', '.join(tool.parameters['properties'])}): {tool.description}" for tool in TOOLS]
    return {
        "words": query.words,
        "needs": json.dumps([msgspec.to_builtins(need) for need in query.needs], ensure_ascii=False),
        "tools": "\n".join(tools),
    }


def _candidate(env: str, query: Query, made: Written, theme: Theme, deeds: tuple[Acted, ...]) -> Candidate:
    solution: list[Json] = [{"tool": step.tool, "arguments": step.arguments} for step in made.steps]
    answer = {"all": [[made.answer]], "none": list(made.wrong), "tolerance": made.tolerance}
    missing = sorted({need.path for need in query.needs} - set(made.files))
    needs = [msgspec.to_builtins(need) for need in query.needs]
    how: Json = {"by": "files-endpoint", "theme": theme.name, "needs": needs}
    if missing:  # it is then refused with this reason, not silently dropped
        how["missing"] = missing
    data = {"check": {"answer": answer}, "solution": solution, **({"missing": missing} if missing else {})}
    goal = Goal(words=query.words, data=data, pattern="written")
    return Candidate(place=placed(env, made.files, how), goal=goal, solution=acts(solution), acted=deeds, notes=how)
