"""Compare merged.conf with the right merge."""

import sys
from pathlib import Path

WANTED = """\
# Service settings
# Loopback only
host = 127.0.0.1
port = 8080

# Limits
workers = 8
timeout = 60
queue = 250

# Storage
path = data
keep_days = 14
keep_copies = 3
compress = yes
"""

try:
    merged = Path("/app/merged.conf").read_text()
except OSError as error:
    sys.exit(f"merged.conf: {error}")


def meant(text):
    """Each line by its words: how much space stands between them says nothing."""
    return [" ".join(line.replace("=", " = ", line.lstrip()[:1] != "#").split()) for line in text.strip().splitlines()]


if meant(merged) != meant(WANTED):
    sys.exit(f"merged.conf holds:\n{merged}")
