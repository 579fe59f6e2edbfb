"""The caches are gone, everything else is as it was, home included."""

import sys
from pathlib import Path

LEFT = {
    "NOTES.md",
    "data",
    "data/table.csv",
    "freed.txt",
    "notes.tmp.md",
    "src",
    "src/cache.py",
    "src/main.py",
}
FREED = 301 + 2048 + 512 + 77

found = {str(path.relative_to("/app")) for path in Path("/app").rglob("*")}
if found != LEFT:
    sys.exit(f"too much: {sorted(found - LEFT)}, too little: {sorted(LEFT - found)}")
if Path("/app/freed.txt").read_text().strip() != str(FREED):
    sys.exit("freed.txt is wrong")
for name in ("letters.txt", "photos/index.txt"):
    if not Path("/root/keep", name).is_file():
        sys.exit(f"{name} was in the home folder, and is gone")
if Path("/app/src/main.py").stat().st_mode & 0o022:
    sys.exit("others may write src/main.py now")
