#!/bin/bash
set -e
cd /app
python3 - <<'PYTHON'
from pathlib import Path


def keyed(name):
    """Each line by its key; a line without one by itself and the line after it."""
    return Path(name).read_text().splitlines()


def values(lines):
    return dict(line.split(" = ") for line in lines if " = " in line)


base, ours, theirs = (values(keyed(f"{name}.conf")) for name in ("base", "ours", "theirs"))
merged = []
lines = keyed("theirs.conf")
for line in lines:
    key = line.split(" = ")[0] if " = " in line else None
    if key is None:
        merged.append(line)
        continue
    changed = [each[key] for each in (ours, theirs) if each[key] != base[key]]
    value = max(changed, key=int) if len(changed) == 2 else (changed or [base[key]])[0]
    merged.append(f"{key} = {value}")
    if key == "keep_days":
        merged.append(f"keep_copies = {ours['keep_copies']}")
Path("merged.conf").write_text("\n".join(merged) + "\n")
PYTHON
cat merged.conf
