#!/bin/sh
# claude.sh CLAUDE PROMPT: Claude Code finds its model by ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY. What it would send
# elsewhere is off.
export DISABLE_TELEMETRY=1 DISABLE_AUTOUPDATER=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
exec "$1" -p "$2" --output-format json --allowedTools Bash
