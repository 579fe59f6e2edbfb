import os
import subprocess
from pathlib import Path


def made():
    subprocess.run(["make", "-C", "/app"], capture_output=True, timeout=20, check=False)
    return Path("/app/out/all.txt").read_text()


def test_build_and_rebuild():
    assert made() == "one\ntwo\n"
    part = Path("/app/parts/2.txt")
    part.write_text("two again\n")
    os.utime(part, (2_000_000_000, 2_000_000_000))
    assert made() == "one\ntwo again\n"
