"""Modes, fingerprint, and a script that runs."""

import subprocess
import sys
from pathlib import Path

FINGERPRINT = "5ad9a8f29d005d68a56a7a1d22ad00444c01459810b034966f4cebc100415bbc"

for name, wanted in (("keys/deploy.key", 0o600), ("keys", 0o700), ("scripts/deploy.sh", 0o755)):
    mode = Path("/app", name).stat().st_mode & 0o7777
    if mode != wanted:
        sys.exit(f"{name} has mode {mode:o}")
try:
    told = Path("/app/fingerprint.txt").read_text().split()
except OSError as error:
    sys.exit(f"fingerprint.txt: {error}")
if [word.lower() for word in told[:1]] != [FINGERPRINT]:
    sys.exit(f"fingerprint.txt holds {told}")
done = subprocess.run(["/app/scripts/deploy.sh"], capture_output=True, text=True, timeout=20)
if done.returncode or FINGERPRINT[:12] not in done.stdout:
    sys.exit(f"deploy.sh: {done.stderr}")
