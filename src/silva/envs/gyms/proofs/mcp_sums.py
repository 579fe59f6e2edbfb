"""A small MCP server that proves the bridge to it: it keeps a sum. Run over stdio, as `mcp`."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("sums", instructions="Keeps one sum.")
_kept = [0]


@server.tool()
def add(number: int) -> str:
    """Add a number to the sum."""
    _kept[0] += number
    return f"The sum is {_kept[0]} now."


@server.tool()
def total() -> str:
    """Say the sum."""
    return str(_kept[0])


@server.resource("sums://rules")
def rules() -> str:
    """How the sum is kept."""
    return "The sum begins at 0, and every number is added once."


if __name__ == "__main__":
    server.run("stdio")
