#!/bin/bash -p
# Run by CRIU between writing the processes down and letting them go on: their files as they are at that moment.
# -p: it may run with another real user than root (see `silva.sandbox.criu.user`), and keeps what it may do.
[ "$CRTOOLS_SCRIPT_ACTION" = post-dump ] || exit 0
exec cp -a --reflink=auto "$SILVA_TOP" "$SILVA_COPY"
