"""Compare report.json with what the log says."""

import json
import sys
from pathlib import Path

WANTED = {
    "server_errors": 171,
    "clients": [["10.0.0.5", 57], ["10.0.0.9", 45], ["192.168.3.14", 28]],
    "worst_minute": "02:11",
}

try:
    report = json.loads(Path("/app/report.json").read_text())
except (OSError, ValueError) as error:
    sys.exit(f"report.json: {error}")
if isinstance(report, dict):
    report["worst_minute"] = str(report.get("worst_minute")).strip()
if report != WANTED:
    sys.exit(f"report.json holds {report}")
