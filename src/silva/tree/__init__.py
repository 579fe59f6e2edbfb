"""The nouns everything stands on: pure values, no I/O, no clock, no network.

    Task ── grows ──▶ Tree of Nodes ── walked as ──▶ Trajectory (with an Outcome) ── gathered in ──▶ Group

A node is stored once and carries only what it adds. Supervision and risks are said *about* nodes. A run names what
grew them. `silva.tree.formats` reads and writes the field's file formats.
"""

from silva.tree.exact import InexactTokensError, TokenWalk, added, seen_ids, token_walk
from silva.tree.message import (
    ImagePart,
    Json,
    Message,
    OtherPart,
    Part,
    Record,
    Role,
    TextPart,
    ThinkingPart,
    Tool,
    ToolCall,
    assistant,
    call,
    system,
    tool_result,
    user,
)
from silva.tree.node import NO_USAGE, Author, Node, Tokens, Usage, digest, node_id
from silva.tree.outcome import Boundary, Failure, Outcome, Status
from silva.tree.risk import Risk
from silva.tree.role import in_role, roles_of
from silva.tree.run import Lineage, Run
from silva.tree.schema import SCHEMA, AnyRecord, SchemaError, decode, encode, from_json, to_json
from silva.tree.supervision import Supervision, deciding, masked_nodes
from silva.tree.task import Task
from silva.tree.trajectory import Group, Trajectory, groups, slot, trajectory_at, trajectory_id, tree_id
from silva.tree.tree import Branching, Tree, TreeError, messages, tools

__all__ = [
    "NO_USAGE",
    "SCHEMA",
    "AnyRecord",
    "Author",
    "Boundary",
    "Branching",
    "Failure",
    "Group",
    "ImagePart",
    "InexactTokensError",
    "Json",
    "Lineage",
    "Message",
    "Node",
    "OtherPart",
    "Outcome",
    "Part",
    "Record",
    "Risk",
    "Role",
    "Run",
    "SchemaError",
    "Status",
    "Supervision",
    "Task",
    "TextPart",
    "ThinkingPart",
    "TokenWalk",
    "Tokens",
    "Tool",
    "ToolCall",
    "Trajectory",
    "Tree",
    "TreeError",
    "Usage",
    "added",
    "assistant",
    "call",
    "deciding",
    "decode",
    "digest",
    "encode",
    "from_json",
    "groups",
    "in_role",
    "masked_nodes",
    "messages",
    "node_id",
    "roles_of",
    "seen_ids",
    "slot",
    "system",
    "to_json",
    "token_walk",
    "tool_result",
    "tools",
    "trajectory_at",
    "trajectory_id",
    "tree_id",
    "user",
]
