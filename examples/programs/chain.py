"""A LangChain agent with a shell tool: `chain.py PROMPT`."""

import subprocess
import sys

from langchain.agents import create_agent
from langchain.tools import tool
from langchain_openai import ChatOpenAI


@tool
def bash(command: str) -> str:
    """Run a shell command."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def main(task: str) -> None:
    """Work on the task and print the answer."""
    agent = create_agent(ChatOpenAI(model="any"), tools=[bash], system_prompt="You mend code by shell commands.")
    print(agent.invoke({"messages": [{"role": "user", "content": task}]})["messages"][-1].content)


if __name__ == "__main__":
    main(sys.argv[1])
