"""An environment served over MCP: a real client plays it, and its walk and score are in the lake."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from silva.lake import Lake
from silva.tree import Author

pytest.importorskip("mcp", reason="pip install 'silva[mcp]'")

pytestmark = pytest.mark.slow


def command(lake: Path, *more: str) -> list[str]:
    return ["-m", "silva", "envs", "serve-mcp", "arithmetic", "--split", "chain", "--lake", str(lake), *more]


async def said(client: Any, tool: str, **arguments: Any) -> str:
    return "\n".join(part.text for part in (await client.call_tool(tool, arguments)).content)


def numbers(task: str) -> list[int]:
    """What is to be added, of a task's words."""
    return [int(each) for each in re.findall(r"-?\d+", task.rpartition("[user]")[2])]


async def test_a_client_plays_two_tasks_over_stdio_and_the_lake_has_them(tmp_path: Path) -> None:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    server = StdioServerParameters(
        command=sys.executable,
        args=command(tmp_path, "--limit", "2", "--run", "played", "--model", "coder"),
        env=dict(os.environ),
    )
    async with Client(server) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"add", "silva_task", "silva_finish"} <= names
        task = await said(client, "silva_task")
        total = 0
        for number in numbers(task):
            total += number
            answer = await said(client, "add", number=number)
        assert str(total) in answer
        verdict = await said(client, "silva_finish", answer=str(total))
        assert "score 1" in verdict and "[user]" in verdict, "the score, and the next task"
        assert "error" in (await said(client, "nothing"))
        assert "score 0" in await said(client, "silva_finish", answer="no idea")
        assert "No task is left" in await said(client, "add", number=1)
    with Lake.open(tmp_path, mode="read") as lake:
        first, second = lake.trajectories(run_id="played")
        walk = list(lake.walk(first))
    assert (first.outcome.score, second.outcome.score) == (1.0, 0.0)
    assert first.model == "coder" and first.turns == len(numbers(task)) + 1
    assert sum(node.author is Author.POLICY for node in walk) == first.turns


async def test_over_http_only_who_brings_the_token_plays_and_who_leaves_can_come_back(tmp_path: Path) -> None:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def served(*more: str) -> tuple[asyncio.subprocess.Process, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command(tmp_path, "--http", "0", "--run", "far", *more),
            env={**os.environ, "SILVA_MCP_TOKEN": "a-token-of-a-test"},
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        line = (await process.stderr.readline()).decode()
        return process, line.split()[-1]

    process, url = await served()
    try:
        async with httpx2.AsyncClient() as plain:
            assert (await plain.post(url, json={})).status_code == 401
            assert (await plain.post(url, json={}, headers={"Host": "evil.example"})).status_code == 421
        bearer = {"Authorization": "Bearer a-token-of-a-test"}
        async with (
            httpx2.AsyncClient(headers=bearer, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            task = await said(client, "silva_task")
            await said(client, "add", number=numbers(task)[0])
    finally:
        process.terminate()
        await process.wait()
    process, url = await served("--resume")
    try:
        async with (
            httpx2.AsyncClient(headers=bearer, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            assert f'"number": {numbers(task)[0]}' in await said(client, "silva_task"), "what was done before is there"
            for number in numbers(task)[1:]:
                await said(client, "add", number=number)
            assert "score 1" in await said(client, "silva_finish", answer=str(sum(numbers(task))))
        assert await asyncio.wait_for(process.wait(), 60) == 0, "the run is over, and so is the serving"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    with Lake.open(tmp_path, mode="read") as lake:
        (trajectory,) = [each for each in lake.trajectories(run_id="far") if not each.superseded]
    assert trajectory.outcome.score == 1.0 and trajectory.turns == len(numbers(task)) + 1
