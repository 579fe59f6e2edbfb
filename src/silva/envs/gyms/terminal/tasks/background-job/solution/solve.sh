#!/bin/bash
set -e
cd /app
python3 render.py > /tmp/render.log &
until grep -q palette.txt /tmp/render.log; do sleep 0.1; done
seed=$(sed -n 's/^write \([0-9a-f]*\) to palette.txt.*/\1/p' /tmp/render.log)
echo "$seed" > palette.txt
wait
echo "{\"frames\": $(ls frames | wc -l), \"seed\": \"$seed\"}" > job.json
