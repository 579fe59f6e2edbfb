#!/bin/bash
set -e
cd /app/repo
git show HEAD~1:secret.txt > /app/found.txt
