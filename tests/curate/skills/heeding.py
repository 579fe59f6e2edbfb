"""A model that pulls the lever that a skill names, else one that its draw says; then gives, then says so."""

from __future__ import annotations

import re
from typing import Any
from zlib import crc32

LEVERS = ("red", "green", "blue", "white")


def reply(request: dict[str, Any]) -> Any:
    """The next step of an errand of `examples/skills/houses.py`."""
    messages = request["messages"]
    given = "\n".join(str(each.get("content") or "") for each in messages if each["role"] == "user")
    answers = [str(each.get("content") or "") for each in messages if each["role"] == "tool"]
    if answers and "has " in answers[-1]:
        return {"text": "Done."}
    if any("cupboard opens" in each for each in answers):
        return {"tool_calls": [{"name": "give", "arguments": {}}]}
    pulled = len(answers)
    if pulled >= 2:
        return {"text": "I could not."}
    told = re.search(r"## Do\n\n1\. Call `pull` with lever `(\w+)`", given)
    guess = LEVERS[(crc32(str(request.get("seed", 0)).encode()) + pulled) % 4]
    lever = told[1] if told and not pulled else guess
    return {"tool_calls": [{"name": "pull", "arguments": {"lever": lever}}]}
