"""Three agents on the OpenAI Agents SDK (Responses API): one asks another as a tool, then hands the work to a third.

    triage ─▶ reviewer (an agent as a tool: its own conversation) ─▶ triage ─▶ hand-off ─▶ mender ─▶ last words

OPENAI_BASE_URL and OPENAI_API_KEY say where the model is. Silva is not mentioned.
"""

import asyncio
import subprocess
import sys

from agents import Agent, Runner, function_tool, set_tracing_disabled


@function_tool
def shell(command: str) -> str:
    """Run a shell command in the current folder.

    Args:
        command: the command.
    """
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    return f"exit {done.returncode}\n{done.stdout}{done.stderr}"


async def main(task: str) -> None:
    """Work on the task until an agent has the last word."""
    set_tracing_disabled(True)
    reviewer = Agent(name="reviewer", instructions="You say what is wrong with a piece of code.", tools=[shell])
    mender = Agent(name="mender", instructions="You mend code by shell commands.", tools=[shell])
    triage = Agent(
        name="triage",
        instructions="You ask the reviewer what is wrong, then hand over to the mender.",
        tools=[reviewer.as_tool("ask_reviewer", "Ask what is wrong with the code.")],
        handoffs=[mender],
    )
    result = await Runner.run(triage, task, max_turns=20)
    print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read()))
