"""`python -m silva`: the command line, where `silva` itself is not on the PATH."""

from silva.cli.main import main

main()
