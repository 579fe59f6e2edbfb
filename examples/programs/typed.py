"""A Pydantic AI agent: `typed.py chat|responses|anthropic PROMPT`, one for each API."""

import os
import subprocess
import sys

from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider


def main(kind: str, task: str) -> None:
    """Work on the task and print the answer."""
    if kind == "anthropic":
        provider = AnthropicProvider(api_key=os.environ["ANTHROPIC_API_KEY"], base_url=os.environ["ANTHROPIC_BASE_URL"])
        model = AnthropicModel("any", provider=provider)
    else:
        model = (OpenAIChatModel if kind == "chat" else OpenAIResponsesModel)("any", provider=OpenAIProvider())
    agent = Agent(model, system_prompt="You mend code by shell commands.")

    @agent.tool_plain
    def bash(command: str) -> str:
        """Run a shell command."""
        done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout + done.stderr

    print(agent.run_sync(task).output)


if __name__ == "__main__":
    main(*sys.argv[1:3])
