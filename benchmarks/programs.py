"""Programs that know nothing of Silva, each through `silva rollout`: does it work, keep one walk, play again the same?

    program ─▶ installed once, into the user's cache ─▶ silva rollout --agent "program: …", a scripted model
            ─▶ turns asked, and those on the longest walk ─▶ silva trees replay ─▶ results/programs.json and the table

    python benchmarks/programs.py [NAME …] [--guide]

Without names all of them, one after another; a name that was measured before keeps its row. `--guide` writes the table
into docs/guides/gateway.md, too.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
EXAMPLES = ROOT / "examples" / "programs"
RESULTS = HERE / "results" / "programs.json"
GUIDE = ROOT / "docs" / "guides" / "gateway.md"
BEGIN, END = "<!-- programs -->", "<!-- /programs -->"
LONGEST = 900
"""Seconds an installation or a rollout may take."""

sys.path.insert(0, str(ROOT / "tests"))


@dataclass(frozen=True, kw_only=True)
class Program:
    """One row. `python` or `node` say what to install; `command` may use {bin}, {folder}, {python} and {examples};
    `walks` is how many conversations it holds by its own nature (a sub-agent, a title)."""

    name: str
    api: str
    command: str
    python: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    runs: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    script: str = "policy.yaml"
    walks: int = 1
    replays: str = ""
    """Why it cannot be played again the same, where that is so by its own nature."""


PYDANTIC = ("pydantic-ai-slim==2.68.0", "pydantic-ai-slim[openai,anthropic]==2.68.0")
SMOL = ("smolagents==1.26.0", "smolagents[openai,litellm]==1.26.0")
MINI = ("mini-swe-agent==2.4.6", "litellm==1.106.2", "mcp==2.3.0")
CLAW = ("openclaw@2026.9.6", "node@26.10.0")

PROGRAMS = (
    Program(
        name="Claude Code",
        api="Messages, streamed",
        node=("@anthropic-ai/claude-code@2.1.197",),
        command="{examples}/claude.sh {bin}/claude {prompt}",
        script="claude.yaml",
    ),
    Program(
        name="Codex",
        api="Responses, streamed",
        node=("@openai/codex@0.169.0",),
        command="{examples}/codex.sh {bin}/codex {prompt}",
        script="codex.yaml",
        replays="gives the output of every command a random number, its `Chunk ID`",
    ),
    Program(
        name="OpenAI Agents SDK",
        api="Responses",
        python=("openai-agents==0.24.0", "openai==3.54.0"),
        command="{bin}/python {examples}/handoffs.py {prompt}",
        script="handoffs.yaml",
        walks=2,
    ),
    Program(
        name="mini-swe-agent",
        api="Chat",
        python=MINI,
        command="{bin}/mini -y --exit-immediately -m openai/any -t {prompt}",
        script="mini.yaml",
        variables={"MSWEA_CONFIGURED": "true", "MSWEA_COST_TRACKING": "ignore_errors"},
    ),
    Program(
        name="OpenClaw",
        api="Chat, streamed",
        node=CLAW,
        command="{examples}/openclaw.sh {folder} openai-completions {prompt}",
        replays="tells the model the time and the random number of its session",
    ),
    Program(
        name="OpenClaw, Anthropic",
        api="Messages, streamed",
        node=CLAW,
        command="{examples}/openclaw.sh {folder} anthropic-messages {prompt}",
        replays="tells the model the random number of its session",
    ),
    Program(
        name="opencode",
        api="Chat, streamed",
        node=("opencode-ai@1.18.33",),
        command="{examples}/opencode.sh {bin}/opencode {prompt}",
        walks=2,
    ),
    Program(
        name="qwen-code",
        api="Chat, streamed",
        node=("@qwen-code/qwen-code@0.24.4",),
        command="{examples}/qwen.sh {bin}/qwen {prompt}",
        replays="tells the model the number of its process group",
    ),
    Program(
        name="smolagents, code",
        api="Chat",
        python=SMOL,
        command="{bin}/python {examples}/smol.py code {prompt}",
    ),
    Program(
        name="smolagents, code streamed",
        api="Chat, streamed",
        python=SMOL,
        command="{bin}/python {examples}/smol.py stream {prompt}",
    ),
    Program(
        name="smolagents, tools",
        api="Chat",
        python=SMOL,
        command="{bin}/python {examples}/smol.py tools {prompt}",
    ),
    Program(
        name="pydantic-ai, chat",
        api="Chat",
        python=PYDANTIC,
        command="{bin}/python {examples}/typed.py chat {prompt}",
    ),
    Program(
        name="pydantic-ai, responses",
        api="Responses",
        python=PYDANTIC,
        command="{bin}/python {examples}/typed.py responses {prompt}",
    ),
    Program(
        name="pydantic-ai, anthropic",
        api="Messages",
        python=PYDANTIC,
        command="{bin}/python {examples}/typed.py anthropic {prompt}",
    ),
    Program(
        name="LangChain",
        api="Chat",
        python=("langchain==1.5.2", "langchain-openai==1.7.4", "langchain-anthropic"),
        command="{bin}/python {examples}/chain.py {prompt}",
    ),
    Program(
        name="CrewAI",
        api="Chat",
        python=("crewai==1.15.30",),
        command="{bin}/python {examples}/crew.py {prompt}",
    ),
    Program(
        name="aider",
        api="Chat",
        python=("aider-chat==0.86.2",),
        command="{examples}/aider.sh {bin}/aider {prompt}",
    ),
    Program(
        name="DSPy",
        api="Chat",
        python=("dspy==3.4.1",),
        command="{bin}/python {examples}/react_dspy.py {prompt}",
        walks=4,  # each of its calls is a prompt of its own, with what was done in it as text
    ),
)


def installed(program: Program) -> tuple[Path, Path]:
    """Its folder and the one of its commands.

    Raises:
        OSError, subprocess.SubprocessError, RuntimeError: it cannot be installed.
    """
    from installed_programs import node_folder, python_program

    if program.python:
        name = program.python[0].partition("==")[0]
        known = {"pydantic-ai-slim": "pydantic-ai", "aider-chat": "aider"}.get(name, name)
        bin_ = python_program(known, *program.python)
        return bin_.parent, bin_
    name = program.node[0].rpartition("@")[0].rpartition("/")[2]
    folder = node_folder({"opencode-ai": "opencode"}.get(name, name), *program.node)
    return folder, folder / "node_modules" / ".bin"


def silva(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of Silva's own."""
    command = [sys.executable, "-m", "silva", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)


def measured(program: Program, scratch: Path) -> dict[str, Any]:
    """Its row."""
    from silva.lake import Lake
    from silva.tree import Tree
    from silva.tree.copies import turns_on

    version = (program.python or program.node)[0]
    row: dict[str, Any] = {"program": program.name, "version": version, "api": program.api}
    try:
        folder, bin_ = installed(program)
    except (OSError, subprocess.SubprocessError, RuntimeError) as error:
        return {**row, "works": False, "why": f"cannot be installed: {str(error)[:200]}"}
    places = {"bin": bin_, "folder": folder, "examples": EXAMPLES, "prompt": "{prompt}"}
    lake = scratch / "lake"
    began = time.monotonic()
    done = silva(
        *("rollout", "--env", "workspace", "--task", "workspace/fix", "--run", "programs", "--lake", str(lake)),
        *(
            "--model",
            f"scripted:{EXAMPLES / program.script}",
            "--agent",
            f"program: {program.command.format(**places)}",
        ),
        f"program.mounts={json.dumps([str(folder), str(EXAMPLES)])}",
        f"program.variables={json.dumps(program.variables)}",
        "deadlines.episode=400",
    )
    row["seconds"] = round(time.monotonic() - began, 1)
    if done.returncode:
        return {**row, "works": False, "why": done.stderr.strip()[-300:]}
    with Lake.open(lake, mode="read") as opened:
        (trajectory,) = opened.trajectories(run_id="programs")
        tree = Tree(opened.nodes(run_id="programs"))
    outcome = trajectory.outcome
    leaves = list(dict.fromkeys([trajectory.leaf_id, *trajectory.attributes.get("leaves", ())]))
    walks = [set(turns_on(tree.walk(leaf))) for leaf in leaves if leaf]
    apart, rest = [], set().union(*walks)
    while rest:  # as few walks as cover all turns, the longest first
        most = max(walks, key=lambda walk: len(walk & rest))
        apart.append(len(most & rest))
        rest -= most
    row |= {"works": outcome.score == 1.0, "turns": trajectory.turns, "walks": apart}
    if outcome.score != 1.0:
        row["why"] = outcome.failure.message if outcome.failure else trajectory.attributes.get("output", "")[-300:]
    row["one_walk"] = 0 < len(apart) <= program.walks and sum(apart) == trajectory.turns
    again = silva("trees", "replay", trajectory.id, "--lake", str(lake))
    row["replays"] = again.returncode == 0
    if again.returncode:
        row["replay_said"] = program.replays or (again.stdout + again.stderr).strip()[-400:]
        if again.stdout.startswith("diverged at "):
            row["replay_at"] = again.stdout.partition(":")[0].removeprefix("diverged at ")
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = [
        "| program | version | API | works | turns on its walks / asked | one walk | played again |",
        "|" + "---|" * 7,
    ]
    for row in rows:
        walks = " + ".join(map(str, row.get("walks", ()))) or "–"
        yes = {True: "yes", False: "no", None: "–"}
        replays = yes[row.get("replays")]
        if row.get("replays") is False:
            replays = f"no: {row['replay_said'].splitlines()[0][:80]}" if row.get("replay_said") else "no"
            replays += f" ({row['replay_at']})" if "replay_at" in row else ""
        why = (row.get("why") or "").strip().splitlines()[-1:]
        works = "yes" if row["works"] else "no: " + "".join(why)[:80]
        version = row["version"].replace("==", " ").replace("@", " ").strip()
        cells = (
            row["program"],
            version,
            row["api"],
            works,
            f"{walks} / {row.get('turns', '–')}",
            yes[row.get("one_walk")],
        )
        lines.append(f"| {' | '.join(cells)} | {replays} |")
    return "\n".join(lines)


def main() -> int:
    """Measure and write; 1 where a program does not work or does not keep its walk."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="which; all by default")
    parser.add_argument("--guide", action="store_true", help="write the table into the guide, too")
    given = parser.parse_args()
    known = {program.name: program for program in PROGRAMS}
    unknown = [name for name in given.names if name not in known]
    if unknown:
        parser.error(f"no program {unknown[0]!r}; there are {', '.join(known)}")
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": []}
    rows = {row["program"]: row for row in stored["rows"]}
    for name in given.names or known:
        with tempfile.TemporaryDirectory(prefix="silva-programs-", ignore_cleanup_errors=True) as scratch:
            rows[name] = measured(known[name], Path(scratch))
        print(json.dumps(rows[name]), flush=True)
        where = {"python": platform.python_version(), "cores": os.cpu_count()}
        ordered = [rows[each] for each in known if each in rows]
        RESULTS.write_text(json.dumps({"machine": where, "rows": ordered}, indent=1) + "\n")
    print(table(ordered))
    if given.guide:
        text = GUIDE.read_text()
        before, after = text.index(BEGIN) + len(BEGIN), text.index(END)
        GUIDE.write_text(f"{text[:before]}\n\n{table(ordered)}\n\n{text[after:]}")
    return 0 if all(row["works"] and row.get("one_walk") for row in rows.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
