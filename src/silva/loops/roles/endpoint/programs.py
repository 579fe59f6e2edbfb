"""Evolution by a program: a coding agent, mini-swe-agent by default, works on the source in a folder, in the sandbox.

    curation.py · operators.py · failed_points.json · profile.json · sample.json · TASK.md ─▶ program ─▶ curation.py

The program runs as every agent that is a program does (`silva rollout --agent "program: …"`): with its model behind a
gateway, so every turn of it is in the lake, and with no network but that door. What it leaves in curation.py is its
answer; the loop runs that in a sandbox of its own, and measures.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import msgspec
from pydantic import Field

from silva.curate.curation.source import Curation, curation, operators
from silva.errors import UnreachableError, UsageError
from silva.lake import Lake
from silva.loops.roles.endpoint.evolving import AIMS
from silva.loops.roles.evolver import Revision, Wanted
from silva.loops.roles.registry import Implementation
from silva.rollout.acted import Acted, Role, prompt_digest
from silva.rollout.config import ProgramConfig, RolloutConfig
from silva.rollout.run import run_rollout
from silva.rollout.section import Section
from silva.tree import Task, Trajectory, digest
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


class ProgramEvolver(Implementation):
    """A coding agent works on the source."""

    role: ClassVar[Role] = "evolver"
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
        folder = Path(wanted.lake).parent if Path(wanted.lake).parent.is_dir() else Path()
        name = f"{wanted.run}.{digest(parent.digest, str(wanted.seed))[:12]}"
        file = folder / f"{name}.tasks.jsonl"
        tasks = [_task(name, number, parent, wanted) for number in range(1, wanted.count + 1)]
        file.write_text("".join(f"{line}\n" for line in write_tasks(tasks)), encoding="utf-8")
        # What it left in the file is what it answers, so that the source stands on the tree as its action.
        script = f'{options.command.replace("{prompt}", PROMPT)} >/dev/null 2>&1; cat curation.py > "$SILVA_ANSWER"'
        config = RolloutConfig.model_validate(
            {
                "run": name,
                "env": "workspace",
                "agent": f"program: sh -c {shlex.quote(script)}",
                "model": options.model,
                "lake": wanted.lake,
                "tasks": {"file": str(file)},
                "pool": 2,
                "deadlines": {"model": options.seconds, "episode": options.seconds},
                "program": ProgramConfig(mounts=options.mounts, variables=options.variables).model_dump(mode="json"),
            }
        )
        with Lake.open(wanted.lake, mode="read") as lake:
            begun = lake.run(name) is not None
        result = await run_rollout(config, resume=begun)
        made: list[Revision] = []
        seen = {parent.digest, *wanted.known}
        for each, text in self._answers(wanted.lake, result.trajectories):
            try:
                revised = curation(text if text.endswith("\n") else f"{text}\n", "revision")
            except UsageError:
                continue  # no program: its turns stay in the lake, and there is one candidate less
            if revised.digest not in seen:
                seen.add(revised.digest)
                acted = Acted.of("evolver", self.name, each.usage, model=options.model, prompt=prompt_digest(TASK))
                made.append(Revision(curation=revised, note=f"by {options.command.split()[0]}", acted=(acted,)))
        return made

    def _answers(self, location: str, trajectories: Sequence[Trajectory]) -> list[tuple[Trajectory, str]]:
        """What each attempt left in the file.

        Raises:
            UnreachableError: every one of them failed.
        """
        ended = [each for each in trajectories if each.outcome.failure is None and each.leaf_id is not None]
        if not ended:
            failure = next((each.outcome.failure for each in trajectories if each.outcome.failure is not None), None)
            why = f"{failure.code}: {failure.message}" if failure is not None else "nothing was played"
            raise UnreachableError(f"evolver program: no attempt came to its end ({why})")
        with Lake.open(location, mode="read") as lake:
            walks = [(each, lake.walk(each)) for each in sorted(ended, key=lambda each: each.task_id)]
        last = [(each, [node for node in walk if node.message.role == "assistant"]) for each, walk in walks]
        return [(each, nodes[-1].message.text) for each, nodes in last if nodes]


def _task(name: str, number: int, parent: Curation, wanted: Wanted) -> Task:
    points = [{"point": p.point, "evidence": p.evidence, "hint": p.hint} for p in wanted.points]
    files = {
        "TASK.md": TASK.format(aim=AIMS[wanted.phase], number=number),
        "curation.py": parent.source,
        "operators.py": operators(),
        "failed_points.json": json.dumps(points, indent=1, ensure_ascii=False),
        "profile.json": msgspec.json.format(msgspec.json.encode(wanted.profile)).decode(),
        "sample.json": json.dumps(list(wanted.sample)[:3], ensure_ascii=False),
    }
    return Task(id=f"{name}/{number}", env="workspace", instruction=PROMPT, data={"files": files})
