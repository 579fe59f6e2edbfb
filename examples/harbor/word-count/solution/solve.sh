#!/bin/bash
set -e
echo 'import sys; print(len(sys.stdin.read().split()))' > /app/count.py
