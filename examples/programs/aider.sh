#!/bin/sh
# aider.sh AIDER PROMPT: aider finds its model by OPENAI_API_BASE and OPENAI_API_KEY; it edits area.py by diffs.
exec "$1" --model openai/any --edit-format diff --no-git --yes-always --no-check-update --analytics-disable \
  --no-show-model-warnings --no-stream --no-show-release-notes --map-tokens 0 --message "$2" area.py < /dev/null
