"""A model that adds 5 by the tool of the server `sums`, under whatever name the program shows it, and says the sum."""

from __future__ import annotations

import json
from typing import Any


def adds(request: dict[str, Any]) -> object:
    """One call, then what it said; where the program shows no such tool, which ones it shows."""
    names = [tool["function"]["name"] for tool in request.get("tools") or ()]
    added = next((name for name in names if name.endswith("sums__add")), None)
    said = [message for message in request["messages"] if message["role"] == "tool"]
    if said:
        return f"The server said: {_text(said[-1])}"
    if added is None:
        return f"No tool to add with among {json.dumps(names)}."
    return {"tool_calls": [{"name": added, "arguments": {"number": 5}}]}


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
