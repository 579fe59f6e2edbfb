"""Tool calls written as text between `<tool_call>` marks, taken out of a reply by the reader that exact tokens use.

What looks like a call but cannot be read stays plain text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from silva.models.exact.calls import read_tagged
from silva.tree import Tool, ToolCall

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


def split_calls(text: str, tools: Sequence[Tool] = ()) -> tuple[str, tuple[ToolCall, ...]]:
    """Take the tool calls out of a reply's text. If any of them cannot be read, all stays text."""
    calls: list[ToolCall] = []
    for block in _CALL.findall(text):
        read = read_tagged(block, tools) if block.lstrip().startswith(("{", "<")) else None  # a bare word is no call
        if read is None:
            return text, ()
        calls += [ToolCall(id="", name=name, arguments=arguments) for name, arguments, _ in read]
    return (_CALL.sub("", text).strip(), tuple(calls)) if calls else (text, ())
