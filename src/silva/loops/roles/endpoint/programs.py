"""Evolution by a program: a coding agent, mini-swe-agent by default, works on the source in a folder, in the sandbox.

    curation.py · operators.py · failed_points.json · profile.json · sample.json · TASK.md ─▶ program ─▶ curation.py

The program runs as every agent that is a program does (`silva rollout --agent "program: …"`): with its model behind a
gateway, so every turn of it is in the lake, and with no network but that door. What it leaves in curation.py is its
answer; the loop runs that in a sandbox of its own, and measures.
"""

from __future__ import annotations

import json
import shlex
import tempfile
from pathlib import Path
from typing import ClassVar

import msgspec
from pydantic import Field

from silva.curate.curation.source import Curation, curation, operators
from silva.errors import UnreachableError, UsageError
from silva.lake import Lake
from silva.lake.layout import is_lake
from silva.lake.place import place
from silva.loops.roles.endpoint.evolving import AIMS
from silva.loops.roles.evolver import Evolving, Revision, Wanted, unlike
from silva.rollout.acted import Acted, plus, prompt_digest
from silva.rollout.config import ProgramConfig, RolloutConfig
from silva.rollout.run import run_rollout
from silva.rollout.section import Section
from silva.tree import Task, digest
from silva.tree.formats.tasks import write_tasks

TASK = """\
The file curation.py is a program that makes training data of walks of agents. Revise it; change no other file.

Aim: {aim}

Its function curate(raw) gets a list of walks as in sample.json and returns output(sft=rows, rl=rows, memory=texts). It
may import operators (beside it) and the standard library; no network, clock or chance; the same data every time;
nothing about single tasks. failed_points.json says what agents lacked that were trained on its data, profile.json how
much data it gives now. Try it before you end: python3 -c "import json, curation;
print(len(curation.curate(json.load(open('sample.json')))['sft']))" This is revision {number} of several: do what the
others may not.
"""
ENV = f"{Path(__file__).with_name('revised.py')}:Revised"
PROMPT = "Read TASK.md in this folder and do what it says."


class ProgramOptions(Section):
    """`model`: whom it asks, as `silva rollout --model`; `command`: the program, with {prompt} where its task goes, in
    double quotes; `mounts`: the folder it is installed in, where that is not the system's; `variables` of its
    environment; `seconds`: how long one revision may take."""

    model: str
    command: str = 'mini -y --exit-immediately -m openai/any -t "{prompt}"'
    mounts: tuple[Path, ...] = ()
    variables: dict[str, str] = Field(default_factory=lambda: {"MSWEA_CONFIGURED": "true"})
    seconds: float = Field(default=900.0, gt=0)


class ProgramEvolver(Evolving):
    """A coding agent works on the source."""

    name: ClassVar[str] = "program"
    summary: ClassVar[str] = "a coding agent such as mini-swe-agent works on the source, through the gateway"
    Options: ClassVar[type[Section]] = ProgramOptions

    async def revise(self, parent: Curation, wanted: Wanted) -> list[Revision]:
        """See `Evolver`. What is no curation in the end is no revision.

        Raises:
            UnreachableError: no attempt of the program came to its end.
            UsageError, MissingError: the program or its model cannot be had.
        """
        if not wanted.lake:
            raise UsageError("evolver program: its turns are kept in a lake, and none was named")
        options: ProgramOptions = self.options
        name = f"{wanted.run}.{digest(parent.digest, str(wanted.seed))[:12]}"
        folder = _folder(wanted.lake, name)
        file = folder / "tasks.jsonl"
        left = [folder / f"{number}.py" for number in range(1, wanted.count + 1)]
        tasks = [_task(name, number, parent, wanted, into) for number, into in enumerate(left, 1)]
        file.write_text("".join(write_tasks(tasks)), encoding="utf-8")
        config = RolloutConfig.model_validate(
            {
                "run": name,
                "env": ENV,
                "agent": f"program: sh -c {shlex.quote(options.command.replace('{prompt}', PROMPT))}",
                "model": options.model,
                "lake": wanted.lake,
                "tasks": {"file": str(file)},
                "pool": 2,
                "deadlines": {"model": options.seconds, "episode": options.seconds},
                "program": ProgramConfig(mounts=options.mounts, variables=options.variables).model_dump(mode="json"),
            }
        )
        there = is_lake(place(wanted.lake), make=True)
        begun = there and Lake.open(wanted.lake, mode="read").run(name) is not None
        result = await run_rollout(config, resume=begun)
        prompt = prompt_digest(TASK)
        deeds = {
            each.task_id: Acted.of(self.role, self.name, each.usage, model=options.model, prompt=prompt)
            for each in result.trajectories
        }
        for each in deeds.values():
            self.spent = plus(self.spent, each)
        done = {each.task_id for each in result.trajectories if each.outcome.failure is None}
        if not done:
            failure = next((each.outcome.failure for each in result.trajectories if each.outcome.failure), None)
            why = f"{failure.code}: {failure.message}" if failure is not None else "nothing was played"
            raise UnreachableError(f"evolver program: no attempt came to its end ({why})")
        made: list[Revision] = []
        for task, into in zip(tasks, left, strict=True):
            if task.id not in done or not into.is_file():
                continue
            try:
                revised = curation(into.read_text(encoding="utf-8"), into.name)
            except (UsageError, UnicodeDecodeError):
                continue  # no program: its turns stay in the lake, and there is one candidate less
            made.append(Revision(curation=revised, note=f"by {options.command.split()[0]}", acted=(deeds[task.id],)))
        return list(unlike(made, parent, wanted))


def _folder(lake: str, name: str) -> Path:
    """Where what the program leaves is kept: beside the lake, where that is a folder."""
    beside = Path(tempfile.gettempdir()) if "://" in lake else Path(lake).resolve().parent
    folder = beside / f"{name}.left"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _task(name: str, number: int, parent: Curation, wanted: Wanted, into: Path) -> Task:
    points = [{"point": p.point, "evidence": p.evidence, "hint": p.hint} for p in wanted.points]
    files = {
        "TASK.md": TASK.format(aim=AIMS[wanted.phase], number=number),
        "curation.py": parent.source,
        "operators.py": operators(),
        "failed_points.json": json.dumps(points, indent=1, ensure_ascii=False),
        "profile.json": msgspec.json.format(msgspec.json.encode(wanted.profile)).decode(),
        "sample.json": json.dumps(list(wanted.sample)[:3], ensure_ascii=False),
    }
    data = {"files": files, "keep": "curation.py", "into": str(into)}
    return Task(id=f"{name}/{number}", env=ENV, instruction=PROMPT, data=data)
