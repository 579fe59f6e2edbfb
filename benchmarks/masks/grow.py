"""Grow the rollouts that the labelled set was cut from: scripted agents, real environments.

    python benchmarks/masks/grow.py FOLDER     writes the tasks, the script and what to run then

The labels belong to the turns in `turns.jsonl`; what is grown anew has other ids and other times of day in it.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from plays import OTHERS, PLAYS

import silva.envs.gyms.terminal

OWN = Path(silva.envs.gyms.terminal.__file__).parent / "tasks"
DOCKER = "FROM python:3.11-slim\nWORKDIR /app\nCOPY files/ /app/\n"
CONVERT = """import sys
from pathlib import Path

if len(sys.argv) != 2:
    sys.exit("usage: convert.py FOLDER")
for path in sorted(Path(sys.argv[1]).glob("*.txt")):
    rows = [",".join(line.split()) for line in path.read_text().splitlines()]
    path.with_suffix(".csv").write_text("\\n".join(rows) + "\\n")
    print(f"{path.name}: {len(rows)} rows")
"""
CHECKSUM = """import hashlib
from pathlib import Path

for path in sorted(Path("data").iterdir()):
    print(hashlib.sha256(path.read_bytes()).hexdigest()[:16], path.name)
"""
TASKS: dict[str, tuple[str, dict[str, str], str]] = {
    "convert": (
        "# Reports as tables\n\nEvery report in `reports/` is to be there as CSV too, with a comma between the columns. Use"
        " `tools/convert.py` for it: other departments rely on its form.\n",
        {
            "reports/may.txt": "day sold\n1 12\n2 9\n",
            "reports/june.txt": "day sold\n1 7\n2 15\n3 4\n",
            "tools/convert.py": CONVERT,
        },
        "test -s reports/may.csv && test -s reports/june.csv",
    ),
    "tally": (
        "# Who won?\n\n`votes.txt` holds a name a line. The script `scripts/tally.sh` is provided: it prints each name with"
        " its votes, the most first. Write what it prints to `tally.txt`.\n",
        {
            "votes.txt": "ada\nbo\nada\ncy\nbo\nada\n",
            "scripts/tally.sh": "set -eu\nsort \"$1\" | uniq -c | sort -rn | awk '{print $2, $1}'\n",
        },
        'test "$(head -1 tally.txt)" = "ada 3"',
    ),
    "manifest": (
        "# A manifest of the data\n\n`manifest.txt` should list the files in `data/` with their checksums. A helper,"
        " `bin/checksum.py`, prints it in the form that the archive wants.\n",
        {"data/a.bin": "alpha\n", "data/b.bin": "beta\n", "bin/checksum.py": CHECKSUM},
        'test "$(python3 bin/checksum.py)" = "$(cat manifest.txt)"',
    ),
    "version": (
        "# Version 1.4.0\n\nRaise the version from 1.3.9 to 1.4.0 everywhere: `app.ini`, `setup.cfg`, `README.md` and"
        " `CHANGES.md`.\n",
        {
            "app.ini": "[app]\nname = tern\nversion = 1.3.9\nerrors = error.log\n",
            "setup.cfg": "[metadata]\nname = tern\nversion = 1.3.9\n",
            "README.md": "# tern\n\nThis is tern 1.3.9.\n",
            "CHANGES.md": "# Changes\n\n- 1.3.9: first error messages in colour\n",
        },
        "! grep -rq '1\\.3\\.9' app.ini setup.cfg README.md CHANGES.md",
    ),
}


def main() -> None:
    """Write the tasks and say what to run."""
    folder = Path(sys.argv[1])
    lines = []
    for ticket, (name, _) in PLAYS.items():
        place = folder / "tasks" / f"{ticket}-{name}"
        _make(name, place)
        told = place / "instruction.md"
        told.write_text(told.read_text().replace("# ", f"# Ticket {ticket}: ", 1))
        lines.append({"id": f"terminal/{ticket}-{name}", "env": "terminal", "data": {"folder": str(place.resolve())}})
    (folder / "terminal.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    script = Path(__file__).with_name("plays.py").resolve()
    (folder / "script.yaml").write_text(f"function: {script}:reply\n")
    chains = " ".join(f"--task {name}" for name in OTHERS if name.startswith("arithmetic"))
    print(
        f"silva rollout --env terminal --tasks {folder}/terminal.jsonl --model scripted:{folder}/script.yaml --run terminal\n"
        f"silva rollout --env arithmetic --split chain {chains} --model scripted:{folder}/script.yaml --run arithmetic\n"
        "silva rollout --env textworld --task textworld/small/0 --task textworld/medium/0 --pool 1"
        f" --model scripted:{folder}/script.yaml --run textworld\n"
        "silva rollout --env babyai --policy expert --limit 4 --seed 3 --run babyai slips=0.4\n"
        "then silva trees export --run NAME -f messages of each, and cut.py over the files"
    )


def _make(name: str, place: Path) -> None:
    if name not in TASKS:
        shutil.copytree(OWN / name, place)
        return
    told, files, check = TASKS[name]
    for path, text in files.items():
        file = place / "environment" / "files" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (place / "instruction.md").write_text(told)
    (place / "environment" / "Dockerfile").write_text(DOCKER)
    (place / "tests").mkdir()
    (place / "tests" / "test.sh").write_text(
        f"mkdir -p /logs/verifier\nif {check}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"
    )
    shutil.copy(OWN / "fix-invoice" / "task.toml", place / "task.toml")


if __name__ == "__main__":
    main()
