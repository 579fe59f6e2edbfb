#!/bin/bash
set -e
cd /app
printf 'out/all.txt: $(sort $(wildcard parts/*.txt))\n\tmkdir -p out\n\tcat $^ > $@\n' > Makefile
