"""A folder with a file of rows, and the command run in it as people run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROWS = [{"instruction": f"Say {n % 5}", "output": f"It is {n % 5}."} for n in range(20)]
SILVA = (sys.executable, "-m", "silva")


def write_rows(path: Path, rows: list[dict[str, Any]] | None = None) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in (ROWS if rows is None else rows)), encoding="utf-8")
    return path


def silva(folder: Path, *words: str, code: int = 0) -> str:
    """Run the command; what it printed on both. The exit code must be `code`."""
    done = subprocess.run(
        [*SILVA, *words], cwd=folder, capture_output=True, text=True, timeout=400, env=environment(folder)
    )
    assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "SILVA_LAKE": str(folder / "lake"), "SILVA_ELF": str(folder / "elf")}
