"""A CrewAI crew of one with a shell tool: `crew.py PROMPT`."""

import os
import subprocess
import sys

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool


@tool("bash")
def bash(command: str) -> str:
    """Run a shell command."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr or "nothing was printed"


def main(task: str) -> None:
    """Work on the task and print the answer."""
    llm = LLM(model="openai/any", base_url=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
    agent = Agent(
        role="mender", goal="mend code", backstory="You mend code by shell commands.", tools=[bash], llm=llm, max_iter=6
    )
    print(Crew(agents=[agent], tasks=[Task(description=task, expected_output="done", agent=agent)]).kickoff())


if __name__ == "__main__":
    main(sys.argv[1])
