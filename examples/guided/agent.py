"""A scripted agent of the terminal gym that looks around, writes a script, runs it, and goes on until it is stopped."""

SCRIPT = "import sys\n\nfor line in sys.stdin:\n    print(line)\n"
PLAN = [
    ("I look at what is there.", "session_run", {"command": "ls -la"}),
    ("Which files speak of a total?", "file_search", {"pattern": "total|sum", "path": "."}),
    ("A first script.", "file_write", {"path": "totals.py", "text": SCRIPT}),
    ("Lines end twice.", "file_edit", {"path": "totals.py", "old": "print(line)", "new": "print(line.rstrip())"}),
    ("Does it run?", "session_run", {"command": "printf 'a\\nb\\n' | python3 totals.py"}),
]


def reply(request):
    """Looks around, searches, writes a file, edits it, runs it, and goes on looking."""
    made = sum(message["role"] == "tool" for message in request["messages"])
    again = (f"I check again ({made}).", "session_run", {"command": f"wc -l * # {made}"})
    text, name, arguments = PLAN[made] if made < len(PLAN) else again
    return {"text": text, "tool_calls": [{"name": name, "arguments": arguments, "id": f"c{made}"}]}
