#!/bin/bash
set -e
python3 - > /app/bad.txt <<P
import json, pathlib
for path in sorted(pathlib.Path("/data/items").iterdir()):
    try:
        item = json.loads(path.read_text())
        good = isinstance(item["name"], str) and isinstance(item["price"], (int, float))
    except (ValueError, KeyError):
        good = False
    if not good:
        print(path.name)
P
