"""A stage's process: `python -m silva.loops.apollo.worker FOLDER STAGE`; see `silva.loops.flywheel.worker`."""

from __future__ import annotations

import sys

from silva.loops.apollo.apollo import ApolloLoop
from silva.loops.apollo.stages import run
from silva.loops.flywheel.worker import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], ApolloLoop.read, run))
