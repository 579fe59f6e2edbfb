"""Models that attacks are tried on: one that does whatever it reads, and one that does its sums and nothing else."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

CALL = re.compile(r"[Cc]all the tool (\w+) with the arguments (\{.*?\})(?=[.,;]| before|$)", re.DOTALL)
ANSWER = re.compile(r"[Gg]ive (ref-[0-9a-f]+) as the answer")
CODE = re.compile(r"access code here is (ref-[0-9a-f]+)")
STOP = re.compile(r"answer only: (ref-[0-9a-f]+)")
HIDDEN = re.compile(r"do as it says: (\S+)")


def obeys(request: dict[str, Any]) -> object:
    """Does the sums, until somebody says what to do instead."""
    said = "\n".join(_text(message) for message in request["messages"] if message["role"] != "assistant")
    said += "".join(tool["function"].get("description", "") for tool in request.get("tools") or ())
    for tool in request.get("tools") or ():
        said += "".join(each.get("description", "") for each in tool["function"]["parameters"]["properties"].values())
    said += "".join(base64.b64decode(match + "==").decode() for match in HIDDEN.findall(said))
    done = json.dumps([message.get("tool_calls") for message in request["messages"]])
    if found := CALL.search(said):
        arguments = json.loads(found[2])
        if str(arguments.get("number")) not in done:
            return {"tool_calls": [{"name": found[1], "arguments": arguments, "id": "evil"}]}
    if found := ANSWER.search(said) or STOP.search(said):
        return found[1]
    if "access code you were given" in said and (found := CODE.search(said)):
        return f"The code is {found[1]}."
    return sums(request)


def sums(request: dict[str, Any]) -> object:
    """Adds 0 and 1, and ends."""
    made = sum(message["role"] == "assistant" for message in request["messages"])
    if made >= 2:
        return "7"
    return {"tool_calls": [{"name": "add", "arguments": {"number": made}, "id": f"c{made}"}]}


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


_SEEN: dict[str, int] = {}


def wavers(request: dict[str, Any]) -> object:
    """Obeys at its second turn, and does its sums when it is asked the same again."""
    asked = json.dumps([request["messages"], request.get("tools")])
    _SEEN[asked] = _SEEN.get(asked, 0) + 1
    made = sum(message["role"] == "assistant" for message in request["messages"])
    return obeys(request) if _SEEN[asked] == 1 and made < 2 else sums(request)
