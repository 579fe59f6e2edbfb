"""A shell agent on the Anthropic SDK: its tool runner, streaming, with a plain function as the tool.

ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY say where the model is, as for every program on this SDK. Silva is not
mentioned.
"""

import subprocess
import sys

from anthropic import Anthropic, beta_tool


@beta_tool
def shell(command: str) -> str:
    """Run a shell command in the current folder.

    Args:
        command: the command.
    """
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    return f"exit {done.returncode}\n{done.stdout}{done.stderr}"


def main(task: str) -> None:
    """Work on the task until the model answers without calling the tool; its words are printed as they come."""
    runner = Anthropic().beta.messages.tool_runner(
        model="claude-sonnet-4-5",
        max_tokens=2000,
        system="You work in a folder by shell commands. Say so when you are done.",
        tools=[shell],
        messages=[{"role": "user", "content": task}],
        stream=True,
    )
    for turn in runner:
        for event in turn:
            if event.type == "text":
                print(event.text, end="", flush=True)
        print()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read())
