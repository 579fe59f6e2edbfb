"""A writer killed in the middle of a write: what it had begun is no loss, and the doctor says so and is content."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lake_records import task
from test_doctor_references import grown

from silva.cli.lake import app
from silva.lake import Lake
from silva.lake.frames import HEADER, MAGIC, as_batch, frames, unfinished

KILLED = """
import os, signal, sys
from silva.lake import Lake, segment
from lake_records import task

whole = os.pwritev
def half(descriptor, parts, at):
    data = b"".join(bytes(part) for part in parts)
    if not any(data):  # room that is laid out
        return whole(descriptor, parts, at)
    whole(descriptor, [data[: len(data) * 3 // 7]], at)
    os.kill(os.getpid(), signal.SIGKILL)

lake = Lake.open(sys.argv[1])
lake.append_sync([task(5)])
print("acknowledged", flush=True)
segment.os.pwritev = half
lake.append_sync([task(number) for number in range(6, 40)])
"""


Asked = Callable[[Path], tuple[int, str]]


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str]) -> Asked:
    """The doctor's exit code and words."""

    def ask(location: Path) -> tuple[int, str]:
        capsys.readouterr()
        return app(["doctor", str(location)], standalone_mode=False), capsys.readouterr().out

    return ask


@pytest.mark.slow
def test_a_write_that_a_kill_interrupted_is_a_note(tmp_path: Path, asked: Asked) -> None:
    location = grown(tmp_path / "lake")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    done = subprocess.run([sys.executable, "-c", KILLED, str(location)], env=env, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL and done.stdout == "acknowledged\n", done.stderr
    for place in ("journal/", "quarantine/"):  # as it was left, and once the next writer has set it aside
        code, said = asked(location)
        assert code == 0, said
        first, second = said.splitlines()
        assert first.startswith(f"note: {place}") and "nobody was told that it is kept, so nothing is lost" in first
        assert second == "healthy"
        with Lake.open(location) as lake:
            assert {"env/5"} <= {each.id for each in lake.tasks()}
    assert len(list((location / "quarantine").glob("*"))) == 1, "the bytes are kept"


@pytest.mark.parametrize("how", ["shortened", "damaged", "length"])
def test_acknowledged_records_that_were_cut_open_are_no_note(tmp_path: Path, asked: Asked, how: str) -> None:
    location = grown(tmp_path / "lake")
    last = as_batch(frames([task(4)]))
    room = bytes(1 << 16)
    if how == "shortened":
        left = last[: len(last) // 2]
    elif how == "damaged":
        left = last[:-9] + bytes([last[-9] ^ 1]) + last[-8:] + room
    else:
        length, checksum = HEADER.unpack_from(last)
        left = HEADER.pack(length + 4096, checksum) + last[HEADER.size :] + room
    (location / "journal" / "0000000009.open").write_bytes(MAGIC + as_batch(frames([task(3)])) + left)
    code, said = asked(location)
    assert code == 5 and said.startswith("torn: ")
    with Lake.open(location):
        pass
    code, said = asked(location)
    assert code == 5 and said.startswith("cut: quarantine/0000000009.end.")


def test_an_unfinished_frame_is_told_from_a_whole_one() -> None:
    last = as_batch(frames([task(4)]))
    for written in range(len(last) + 1):
        told = unfinished(last[:written] + bytes(1 << 16), 0)
        assert told == (len(last) - written >= 16), "fewer may be zeros of its own"
        assert not unfinished(last[:written], 0), "a file that ends there may have been shortened"
