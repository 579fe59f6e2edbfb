"""`python -m silva.models.local THREADS ROWS ADAPTERS WEIGHTS`: the child behind the specs `local`, `local:FOLDER`."""

import sys

from silva.models.local.server import main

main(sys.argv[1:])
