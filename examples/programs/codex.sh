#!/bin/sh
# codex.sh CODEX PROMPT: Codex takes the address of a model provider from its configuration alone. Its tools that run at
# the provider are off; what keeps it in is what runs this, so its own sandbox is off, too. The configuration in its home
# is Silva's where tools are served (SILVA_MCP_URL), else whatever it is.
[ -n "$SILVA_MCP_URL" ] || ignored=--ignore-user-config
exec "$1" exec --skip-git-repo-check $ignored --dangerously-bypass-approvals-and-sandbox \
  --disable multi_agent -c web_search=disabled -c check_for_update_on_startup=false -c analytics.enabled=false \
  -c model=any -c model_provider=gateway \
  -c "model_providers.gateway={name=\"gateway\",base_url=\"$OPENAI_BASE_URL\",env_key=\"OPENAI_API_KEY\",wire_api=\"responses\"}" \
  "$2"
