#!/usr/bin/python3
"""Stands where OpenClaw's node stands, in the same sandbox: asks the model behind the door, runs `exec`, `read` and
`write`, and ends; or misbehaves as its prompt says (hang, flood, crash)."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path


def main() -> None:
    """One run."""
    named = "--session-id" in sys.argv
    prompt = sys.argv[sys.argv.index("--message" if named else "exec") + 1]
    if prompt == "hang":
        time.sleep(60)
    if prompt == "crash":
        sys.exit("Error: no such thing")
    while prompt == "flood":
        sys.stdout.write("x" * (1 << 20))
    provider = json.loads(Path("/opt/desk/openclaw.json").read_text())["models"]["providers"]["silva"]
    tools = [{"type": "function", "function": {"name": "exec", "parameters": {"type": "object"}}}]
    messages = [{"role": "system", "content": "You are a stand-in."}]
    session = Path(
        os.environ.get("OPENCLAW_STATE_DIR", "/tmp"), sys.argv[sys.argv.index("--session-id") + 1] if named else ""
    )
    if named and session.exists():
        messages = json.loads(session.read_text())
    messages.append({"role": "user", "content": prompt})
    while True:
        body = json.dumps({"model": "agent", "messages": messages, "tools": tools}).encode()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        reply = json.load(opener.open(urllib.request.Request(f"{provider['baseUrl']}/chat/completions", body)))
        said = reply["choices"][0]["message"]
        messages.append(said)
        for made in said.get("tool_calls") or ():
            answer = played(made["function"]["name"], json.loads(made["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": made["id"], "content": answer})
        if not said.get("tool_calls"):
            if named:
                session.write_text(json.dumps(messages))
            print(json.dumps({"ok": True, "final": said["content"]}))
            return


def played(name: str, arguments: dict[str, str]) -> str:
    """What a tool answers."""
    if name == "exec":
        done = subprocess.run(["bash", "-c", arguments["command"]], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr
    if name == "read":
        return Path(arguments["path"]).read_text()
    place = Path(arguments["path"])
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(arguments["content"])
    return "written"


main()
