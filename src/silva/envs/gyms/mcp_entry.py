"""Registers the MCP bridge: `mcp` proves it, `mcp/FILE.yaml` plays the tasks of a file with the servers it names."""

from __future__ import annotations

from pathlib import Path

import msgspec

from silva.envs.protocol import EnvironmentEntry
from silva.errors import UsageError

PREFIX = "mcp/"

_REQUIREMENTS = """
annotated-types==0.8.0 anyio==4.16.0 attrs==26.1.0 click==8.5.1 h11==0.16.0 httpcore2==2.16.2 httpx2==2.16.2 idna==3.20
jsonschema==4.26.0 jsonschema-specifications==2025.9.1 mcp==2.3.0 mcp-types==2.3.0 opentelemetry-api==1.45.2
platformdirs==4.14.7 pydantic==2.14.3 pydantic-core==2.50.4 pyjwt==2.15.1 python-multipart==0.0.34 pyyaml==6.0.4
referencing==0.37.0 rpds-py==2026.9.1 sse-starlette==3.7.0 starlette==1.10.0 tree-sitter==0.26.1
tree-sitter-bash==0.25.1 truststore==0.10.5 typing-extensions==4.16.0 typing-inspection==0.4.5 uvicorn==0.54.0
"""


def resolve(name: str) -> EnvironmentEntry | None:
    """The entry for `mcp/<file>`, a YAML file of servers and tasks; None for any other name.

    Raises:
        UsageError: there is no such file.
    """
    if not name.startswith(PREFIX) or name == PREFIX:
        return None
    place = name.removeprefix(PREFIX)
    if not Path(place).expanduser().is_file():
        raise UsageError(f"environment {name}: there is no file {place}")
    return _entry(name, place, f"MCP servers and tasks of {place}")


def _entry(name: str, place: str, summary: str) -> EnvironmentEntry:
    return EnvironmentEntry(
        name=name,
        target=f"silva.envs.gyms.mcp_bridge:{place}",
        summary=summary,
        requirements=tuple(_REQUIREMENTS.split()),
        licence="MIT",
        source="https://github.com/modelcontextprotocol/python-sdk",
        expert=None,
        null=None,
    )


ENTRY = msgspec.structs.replace(
    _entry("mcp", "McpProof", "the MCP bridge, proven on sums; any servers, with tasks of your own, are mcp/FILE.yaml"),
    expert=1.0,
    null=0.0,
    sample=4,
)
