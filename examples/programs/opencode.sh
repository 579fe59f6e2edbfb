#!/bin/sh
# opencode.sh OPENCODE PROMPT: opencode takes its model's address from its configuration.
cat > "$HOME/opencode.json" <<END
{"\$schema": "https://opencode.ai/config.json", "autoupdate": false, "share": "disabled", "model": "silva/any",
 "small_model": "silva/any", "permission": {"bash": "allow", "edit": "allow"},
 "provider": {"silva": {"npm": "@ai-sdk/openai-compatible", "name": "silva",
   "options": {"baseURL": "$OPENAI_BASE_URL", "apiKey": "$OPENAI_API_KEY"},
   "models": {"any": {"name": "any", "limit": {"context": 120000, "output": 4096}}}}}}
END
export OPENCODE_CONFIG="$HOME/opencode.json" OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_MODELS_FETCH=1
exec "$1" run --model silva/any "$2" < /dev/null
