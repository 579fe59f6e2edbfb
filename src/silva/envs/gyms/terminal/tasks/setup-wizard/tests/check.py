"""Compare service.conf."""

import sys
from pathlib import Path

WANTED = ["name = harvest", "port = 7070", "mark = 268ad9977aa8332b", "log = harvest.log"]

try:
    lines = Path("/app/service.conf").read_text().strip().splitlines()
except OSError as error:
    sys.exit(f"service.conf: {error}")
if [[part.strip() for part in line.split("=", 1)] for line in lines if line.strip()] != [
    line.split(" = ") for line in WANTED
]:
    sys.exit(f"service.conf holds {lines}")
