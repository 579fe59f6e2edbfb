"""Cut exported rollouts down to what is judged: messages, tools, who said what, how a turn ended.

python benchmarks/masks/cut.py terminal.jsonl … > turns.jsonl     token ids, costs, settings and paths are left out
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec

from silva.tree import Json, Node, Run, Tool, ToolCall, node_id
from silva.tree.formats import messages
from silva.tree.formats.bundle import Bundle
from silva.tree.node import NO_USAGE


def trimmed(bundle: Bundle) -> Bundle:
    """The bundle with what its turns are judged by. Tools keep their schemas and lose their descriptions, calls are
    written the way the format writes them, and the ids are derived anew."""
    replace = msgspec.structs.replace
    nodes: list[Node] = []
    renamed: dict[str | None, str] = {}
    for node in bundle.nodes:
        calls = tuple(replace(each, arguments=_plain(each)) for each in node.message.tool_calls)
        message = replace(node.message, tool_calls=calls)
        tools = node.tools and tuple(replace(tool, description="", parameters=_bare(tool)) for tool in node.tools)
        parent = renamed.get(node.parent_id)
        own = renamed[node.id] = node_id(node.tree_id, parent, node.author, message, tools, node.slot)
        nodes.append(
            Node(
                id=own,
                run_id=node.run_id,
                tree_id=node.tree_id,
                parent_id=parent,
                depth=node.depth,
                author=node.author,
                message=message,
                slot=node.slot,
                tools=tools,
                finish_reason="length" if node.finish_reason == "length" else "",
            )
        )
    return Bundle(
        run=Run(id=bundle.run.id),
        tasks=tuple(replace(task, data={}) for task in bundle.tasks),
        trajectories=tuple(
            replace(each, leaf_id=renamed[each.leaf_id], usage=NO_USAGE, started=0.0, finished=0.0, model="", seed=0)
            for each in bundle.trajectories
        ),
        nodes=tuple(nodes),
    )


def _plain(made: ToolCall) -> str:
    try:
        return json.dumps(made.parsed(), ensure_ascii=False)
    except ValueError:
        return made.arguments


def _bare(tool: Tool) -> Json:
    """A schema without descriptions."""
    properties = {
        name: {key: value for key, value in schema.items() if key != "description"}
        for name, schema in tool.parameters.get("properties", {}).items()
    }
    return {**tool.parameters, "properties": properties}


def main() -> None:
    """Write the trimmed rows."""
    for name in sys.argv[1:]:
        with Path(name).open("rb") as file:
            sys.stdout.writelines(messages.write(trimmed(bundle) for bundle in messages.read(file, name)))


if __name__ == "__main__":
    main()
