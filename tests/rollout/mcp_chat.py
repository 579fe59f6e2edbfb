"""An agent as anyone would write it, with nothing of Silva in it: OpenAI's wire by hand, and the official MCP client.

What stands on its command line after the prompt is done, too: `deaf` asks no server for tools.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

CONFIG = json.loads(Path(os.environ["SILVA_MCP_CONFIG"]).read_text())


def ask(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    body = {"model": "any", "messages": messages, **({"tools": tools} if tools else {})}
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    url = f"{os.environ['OPENAI_BASE_URL']}/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
        return json.load(answer)["choices"][0]["message"]


async def listed(client: Client) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {
                "name": f"mcp__silva__{tool.name}",
                "description": tool.description,
                "parameters": tool.input_schema,
            },
        }
        for tool in (await client.list_tools()).tools
    ]


async def main() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": sys.argv[1]}]
    if sys.argv[2:] == ["deaf"]:
        print(ask(messages, [])["content"])
        return
    server = CONFIG["mcpServers"]["silva"]
    async with (
        httpx2.AsyncClient(headers=server["headers"], timeout=60) as http,
        Client(streamable_http_client(server["url"], http_client=http)) as client,
    ):
        while True:
            reply = await asyncio.to_thread(ask, messages, await listed(client))
            messages.append(reply)
            if not reply.get("tool_calls"):
                print(reply["content"])
                return
            for call in reply["tool_calls"]:
                name = call["function"]["name"].removeprefix("mcp__silva__")
                said = await client.call_tool(name, json.loads(call["function"]["arguments"]))
                text = "\n".join(part.text for part in said.content)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})


asyncio.run(main())
