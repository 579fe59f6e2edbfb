"""A sequence on disk is the sequence that was given, whether it has been written yet or not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from silva.curate.audit import spooled
from silva.curate.audit.spooled import Spooled


def test_items_come_back_in_order_from_memory_and_from_disk(monkeypatch) -> None:
    for buffer in (1 << 20, 40):
        monkeypatch.setattr(spooled, "_BUFFER", buffer)
        kept = Spooled[tuple[int, str]]()
        for number in range(700):
            kept.append((number, "é" * (number % 7)))
            if number == 350:
                assert kept[-1][0] == 350 and kept[10:12] == [(10, "ééé"), (11, "éééé")]
        assert list(kept) == [(number, "é" * (number % 7)) for number in range(700)] and len(kept) == 700
        assert [each[0] for each in kept[5:0:-2]] == [5, 3, 1] and kept[699:900] == [kept[699]]
    assert list(Spooled[int]()) == []


GUARDED = """
from silva.curate.audit import spooled
from silva.elf.running.guard import Guard
guard = Guard()
guard.step("tool", (), ())
spooled._BUFFER = 1
print(list(spooled.Spooled([1, 2])), guard.refused)
"""


def test_a_tool_that_may_write_nothing_may_put_aside_what_it_found(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GUARDED], capture_output=True, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert done.stdout.strip() == "[1, 2]", done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    script = "from silva.curate.audit import spooled\nspooled._BUFFER = 1\nspooled.Spooled([1])"
    gone = {**os.environ, "TMPDIR": "/proc/1", "PYTHONPATH": ""}
    program = f"import tempfile; tempfile.tempdir = '/proc/1'\n{script}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=gone, cwd=tmp_path)
    assert "cannot be put aside" in done.stderr and "TMPDIR" in done.stderr
