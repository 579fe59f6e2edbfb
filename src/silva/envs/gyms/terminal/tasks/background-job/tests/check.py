"""The film must be the one that render.py makes, and render.py as it was."""

import hashlib
import json
import sys
from pathlib import Path

SCRIPT = "1767adad1e28342c90bf245a81ec5b1d11fb62c072c826a704e1825a44ee2e68"
FILM = "cbbfd3c890a2f4de2eaf8852dac25114c0c8fc30a53f054b9d243bb0ec2cab01"

try:
    film = Path("/app/film.txt").read_text().strip()
    job = json.loads(Path("/app/job.json").read_text())
except (OSError, ValueError) as error:
    sys.exit(str(error))
if hashlib.sha256(Path("/app/render.py").read_bytes()).hexdigest() != SCRIPT:
    sys.exit("render.py was changed")
if film != FILM or len(list(Path("/app/frames").glob("*.txt"))) != 8:
    sys.exit("this is not the film")
if job != {"frames": 8, "seed": "0f4e2d"}:
    sys.exit(f"job.json holds {job}")
