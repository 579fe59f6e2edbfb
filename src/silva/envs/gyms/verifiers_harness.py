"""The program that plays a verifiers task: a plain chat loop with the task's tools, in this process.

    prompt ─▶ POST endpoint/chat/completions ─▶ calls? ─▶ the task's MCP servers ─▶ POST … ─▶ a reply without calls

It is what verifiers' own `null` harness does, without a process and an environment built by uv for every episode. The
endpoint is verifiers' interception server, so that its hooks, stops and trace see every turn.
"""

from __future__ import annotations

import json
import sys
from contextlib import AsyncExitStack
from typing import Any

import httpx
from verifiers.v1 import Harness, HarnessConfig, ModelContext, ProgramResult, Runtime, TaskData, Trace
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.harnesses.utils.mcp import call_mcp, connect_mcp

from silva.tree import Json

__all__ = ["SilvaHarness"]

NAME = "silva_harness"
"""What verifiers finds this module by: it takes names of modules without dots."""

_REFUSED = 1


class SilvaHarnessConfig(HarnessConfig):
    """Nothing of its own."""


class SilvaHarness(Harness[SilvaHarnessConfig]):
    """A chat loop that ends with the first reply without tool calls."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    SUPPORTS_RESUME = True
    SUPPORTS_TOOL_INTERCEPTION = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: ModelContext,
        trace: Trace,
        runtime: Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: TaskData,
        tool_interception_url: str | None = None,
    ) -> ProgramResult:
        """Play until a reply without calls, or until a turn is refused."""
        system, prompt = self.resolve_prompt(data)
        messages: list[Json] = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        elif prompt is not None:
            messages += [message_to_wire(message) for message in prompt]
        servers = {name: {"url": url, "timeout": self.config.tool_timeout} for name, url in mcp_urls.items()}
        async with AsyncExitStack() as stack:
            tools, dispatch, open_servers = await connect_mcp({"mcpServers": servers}, stack)
            headers = {"Authorization": f"Bearer {secret}"}
            client = await stack.enter_async_context(httpx.AsyncClient(timeout=None, headers=headers, trust_env=False))
            while True:
                body = {"model": ctx.model, "messages": messages, **({"tools": tools} if tools else {})}
                reply = await client.post(f"{endpoint}/chat/completions", json=body)
                if reply.status_code != httpx.codes.OK:
                    return ProgramResult(_REFUSED, "", reply.text[:2000])
                said = reply.json()["choices"][0]["message"]
                messages.append(said)
                if not said.get("tool_calls"):
                    return ProgramResult(0, "", "")
                for made in said["tool_calls"]:
                    answer = await self._denied(client, tool_interception_url, made)
                    if answer is None:
                        content = await _called(open_servers, dispatch, made["function"])
                        name = made["function"]["name"]
                        answer = {"role": "tool", "tool_call_id": made["id"], "content": content, "name": name}
                    messages.append(answer)

    async def _denied(self, client: httpx.AsyncClient, gate: str | None, made: Json) -> Json | None:
        """What the task's own hooks answer in place of the tool; None where the call may go ahead."""
        if gate is None:
            return None
        function = made["function"]
        try:
            arguments: Any = json.loads(function["arguments"] or "{}")
        except json.JSONDecodeError:
            arguments = function["arguments"]
        asked = {"tool_call_id": made["id"], "name": function["name"], "arguments": arguments}
        reply = await client.post(gate, json=asked)
        reply.raise_for_status()
        decision = reply.json()
        if decision["action"] == "stop":
            raise RuntimeError(decision["reason"])
        return decision["message"] if decision["action"] == "deny" else None


async def _called(servers: Any, dispatch: dict[str, tuple[str, str]], function: Json) -> Any:
    """The tool's answer; a call it cannot take is answered in words."""
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except json.JSONDecodeError as error:
        return f"error: the arguments are not JSON ({error})"
    if not isinstance(arguments, dict):
        return "error: the arguments are not a JSON object"
    if function["name"] not in dispatch:
        return f"error: there is no tool {function['name']!r}"
    return await call_mcp(servers, dispatch, function["name"], arguments)


sys.modules[NAME] = sys.modules[__name__]
