#!/usr/bin/env python3
"""An agent of its own: a loop with a shell, on nothing but Python's library. Silva is not mentioned."""

import json
import os
import subprocess
import sys
import urllib.request

SHELL = {
    "type": "function",
    "function": {
        "name": "shell",
        "description": "Run a shell command in the current folder.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}


def ask(messages: list[dict]) -> dict:
    """One call of the model at OPENAI_BASE_URL."""
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({"model": "any", "messages": messages, "tools": [SHELL]}).encode(),
        {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)["choices"][0]["message"]


def main(task: str) -> None:
    """Work until the model calls no tool; what it says then is the answer."""
    messages = [{"role": "user", "content": task}]
    while True:
        reply = ask(messages)
        messages.append(reply)
        if not reply.get("tool_calls"):
            print(reply["content"])
            return
        for call in reply["tool_calls"]:
            command = json.loads(call["function"]["arguments"])["command"]
            done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout + done.stderr})


if __name__ == "__main__":
    main(sys.stdin.read())
