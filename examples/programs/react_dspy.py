"""A DSPy ReAct agent with a shell tool: `react_dspy.py PROMPT`."""

import os
import subprocess
import sys

import dspy


def bash(command: str) -> str:
    """Run a shell command."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def main(task: str) -> None:
    """Work on the task and print the answer."""
    keys = {"api_base": os.environ["OPENAI_BASE_URL"], "api_key": os.environ["OPENAI_API_KEY"]}
    dspy.configure(lm=dspy.LM("openai/any", cache=False, **keys))
    print(dspy.ReAct("task -> answer", tools=[bash], max_iters=4)(task=task).answer)


if __name__ == "__main__":
    main(sys.argv[1])
