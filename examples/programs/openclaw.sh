#!/bin/sh
# openclaw.sh FOLDER API PROMPT: OpenClaw, installed in FOLDER with npm's node, takes its model's address from its
# configuration alone. API is openai-completions or anthropic-messages.
export PATH="$1/node_modules/.bin:$PATH"
case $2 in
  anthropic-messages) base=$ANTHROPIC_BASE_URL key='${ANTHROPIC_API_KEY}' ;;
  *) base=$OPENAI_BASE_URL key='${OPENAI_API_KEY}' ;;
esac
[ -z "$SILVA_MCP_URL" ] || servers="\"mcp\": {\"servers\": {\"silva\": {\"url\": \"$SILVA_MCP_URL\",
  \"transport\": \"streamable-http\", \"headers\": {\"Authorization\": \"Bearer $SILVA_MCP_TOKEN\"}}}},"
cat > "$HOME/openclaw.json" <<END
{$servers "models": {"mode": "merge", "providers": {"silva": {"baseUrl": "$base", "apiKey": "$key", "api": "$2", "models": [
  {"id": "any", "name": "any", "reasoning": false, "input": ["text"], "contextWindow": 120000, "maxTokens": 4096,
   "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}]}}},
 "agents": {"defaults": {"model": {"primary": "silva/any"}}}}
END
exec node "$1/node_modules/openclaw/openclaw.mjs" agent exec "$3" --config "$HOME/openclaw.json" --cwd "$PWD" --json --timeout 200
