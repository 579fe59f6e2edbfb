#!/bin/sh
# qwen.sh QWEN PROMPT: Qwen Code finds its model by OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL.
export OPENAI_MODEL=any QWEN_TELEMETRY_ENABLED=false
exec "$1" --auth-type openai --yolo -p "$2" < /dev/null
