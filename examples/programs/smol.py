"""A smolagents agent: `smol.py code|stream|tools|managed PROMPT`."""

import os
import subprocess
import sys

from smolagents import CodeAgent, OpenAIServerModel, ToolCallingAgent, tool


@tool
def bash(command: str) -> str:
    """Run a shell command.

    Args:
        command: what to run
    """
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def main(kind: str, task: str) -> None:
    """Work on the task and print the answer."""
    keys = {"api_base": os.environ["OPENAI_BASE_URL"], "api_key": os.environ["OPENAI_API_KEY"]}
    model = OpenAIServerModel(model_id="any", **keys)
    imports = ["*"]
    if kind == "tools":
        agent = ToolCallingAgent(tools=[bash], model=model)
    elif kind == "managed":
        inner = ToolCallingAgent(tools=[bash], model=model, name="worker", description="Works on code.")
        agent = CodeAgent(tools=[], model=model, managed_agents=[inner], additional_authorized_imports=imports)
    else:
        agent = CodeAgent(tools=[], model=model, additional_authorized_imports=imports, stream_outputs=kind == "stream")
    print(agent.run(task))


if __name__ == "__main__":
    main(*sys.argv[1:3])
