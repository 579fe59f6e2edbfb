"""What a model would say to any of these programs on the task workspace/fix: read the script, mend it, say so.

    request ─▶ which tool runs commands? ─▶ two turns of calls, then last words
                └ none ─▶ code (smolagents), whole files (aider), or last words alone

A scripted model asks it: `function: policy.py:reply`.
"""

import json
from typing import Any

SHELLS = ("bash", "Bash", "shell", "run_shell_command", "exec", "exec_command", "terminal", "execute_command")
COMMANDS = ("command", "cmd", "script", "code", "input")
LAST = ("final_answer", "finish", "final_result")
MEND = "sed -i 's/width + height/width * height/' area.py"
WRITTEN = "sed 's/width + height/width * height/' area.py > new.py; cat new.py > area.py; rm new.py"
"""The same for qwen-code, which lets `sed -i` write nothing that its own tools have not read."""
DIFF = """area.py
```python
<<<<<<< SEARCH
print(width + height)
=======
print(width * height)
>>>>>>> REPLACE
```"""
READ = "from pathlib import Path\nprint(Path('area.py').read_text())"
WRITE = """file = Path('area.py')
file.write_text(file.read_text().replace('width + height', 'width * height'))"""
DONE = "Mended: it prints the product now."


def reply(request: dict[str, Any]) -> dict[str, Any]:
    """The reply to one request."""
    messages = request["messages"]
    turn = sum(message["role"] == "assistant" for message in messages)
    tools = {tool["function"]["name"]: tool["function"] for tool in request.get("tools") or ()}
    said = " ".join(_words(message) for message in messages)
    shell = next((name for name in SHELLS if name in tools), "")
    last = next((name for name in LAST if name in tools), "")
    if "*SEARCH/REPLACE block" in said:
        return {"text": f"A sum where a product belongs.\n\n{DIFF}\n"}
    if shell and turn == 0:
        calls = [_call(tools[shell], "cat area.py"), _call(tools[shell], "ls")]
        return {"text": "I read the script first.", "thinking": "Reading comes first.", "tool_calls": calls}
    if shell and turn == 1:
        mend = WRITTEN if shell == "run_shell_command" else MEND
        return {"text": "A sum where a product belongs.", "tool_calls": [_call(tools[shell], mend)]}
    if last:
        name = next(iter(tools[last]["parameters"].get("properties", {})), "answer")
        return {"tool_calls": [{"name": last, "arguments": {name: DONE}}]}
    if not tools and "<code>" in said:
        return {"text": _code(turn)}
    if "[[ ## " in said:
        return {"text": _fields(_words(messages[0]), _words(messages[-1]).count("observation_"))}
    return {"text": DONE, "thinking": "It is done."} if tools else {"text": DONE}


def _call(tool: dict[str, Any], command: str) -> dict[str, Any]:
    parameters = tool.get("parameters") or {}
    known: dict[str, Any] = parameters.get("properties") or {}
    name = next((each for each in COMMANDS if each in known), next(iter(known), "command"))
    arguments: dict[str, Any] = {name: command}
    for needed in parameters.get("required") or ():
        if needed not in arguments:
            kind = known.get(needed, {}).get("type")
            arguments[needed] = {"boolean": False, "integer": 30000, "number": 30000}.get(kind, "Work")
    return {"name": tool["name"], "arguments": arguments}


def _code(turn: int) -> str:
    written = (READ, WRITE, f"final_answer({DONE!r})")[min(turn, 2)]
    return f"Thought: step {turn + 1}.\n<code>\n{written}\n</code>"


def _fields(asked: str, seen: int) -> str:
    """What DSPy's ReAct wants to read; its history stands in its prompt."""
    command = ("cat area.py", MEND)[min(seen, 1)]
    act = {"next_thought": "I go on.", "next_tool_name": "bash", "next_tool_args": json.dumps({"command": command})}
    end = {"next_thought": "It is done.", "next_tool_name": "finish", "next_tool_args": "{}"}
    told = (
        {"reasoning": "It is done.", "answer": DONE} if "next_tool_name ##" not in asked else (act if seen < 2 else end)
    )
    return "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in {**told, "completed": ""}.items())


def _words(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = " ".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content
