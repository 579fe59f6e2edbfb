"""A shell agent on the OpenAI SDK: Chat Completions with one tool, called until the model has nothing left to do.

OPENAI_BASE_URL and OPENAI_API_KEY say where the model is, as for every program on this SDK. Silva is not mentioned.
"""

import json
import subprocess
import sys

from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

SHELL: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "shell",
        "description": "Run a shell command in the current folder.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}


def run(command: str) -> str:
    """What a command prints."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    return f"exit {done.returncode}\n{done.stdout}{done.stderr}"


def main(task: str) -> None:
    """Work on the task until the model answers without calling the tool."""
    client = OpenAI()
    messages: list[ChatCompletionMessageParam] = [
        {"role": "system", "content": "You work in a folder by shell commands. Say so when you are done."},
        {"role": "user", "content": task},
    ]
    while True:
        reply = client.chat.completions.create(model="gpt-4.1", messages=messages, tools=[SHELL]).choices[0].message
        messages.append(reply.to_dict())  # pyright: ignore[reportArgumentType]
        if not reply.tool_calls:
            print(reply.content)
            return
        for call in reply.tool_calls:
            if call.type == "function":
                result = run(json.loads(call.function.arguments)["command"])
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read())
