"""A scripted agent for the pages' tests: writes line after line, and does what it was last told to."""

import re


def reply(request):
    """`write WORD`, `recite CHARACTER NUMBER`, `delete` and `be done` are obeyed; otherwise a line is written."""
    messages = request["messages"]
    last = max((i for i, each in enumerate(messages) if each["role"] == "assistant"), default=-1)
    made = sum(each["role"] == "assistant" for each in messages)
    told = " ".join(str(each.get("content") or "") for each in messages[last + 1 :] if each["role"] == "user")
    hostile = re.search(r"<script.*</b>", str(messages[0].get("content") or ""))
    words = f"turn {made} {hostile.group() if hostile else ''}"
    if "be done" in told:
        return "I am done."
    if "delete" in told:
        return _call(words, "delete_lines", {}, made)
    if found := re.search(r"recite (\w) (\d+)", told):
        text = found.group(1) * int(found.group(2))
        return _call(f"{words} {text}", "recite", {"text": found.group(1), "times": int(found.group(2))}, made)
    found = re.search(r"write (\w+)", told)
    line = found.group(1) if found else f"line-{made}"
    return _call(words, "write", {"text": f"{line} {hostile.group()}" if hostile else line}, made)


def _call(text, name, arguments, made):
    return {"text": text, "tool_calls": [{"name": name, "arguments": arguments, "id": f"c{made}"}]}
