"""Write the golden files of the current schema: every kind of record with every field set, in every form it is stored.

    python tests/tree/golden/write.py        writes tests/tree/golden/v<SCHEMA>/

Run it once when SCHEMA is raised, and commit the new folder. Never rewrite an older folder: those are files that people
have, and the tests hold that they still open.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec

from silva.tree import (
    SCHEMA,
    AnyRecord,
    Author,
    Boundary,
    Failure,
    ImagePart,
    Lineage,
    Message,
    Node,
    Outcome,
    Risk,
    Run,
    Status,
    Supervision,
    Task,
    TextPart,
    ThinkingPart,
    Tokens,
    Tool,
    ToolCall,
    Trajectory,
    Usage,
    encode,
    node_id,
    slot,
    to_json,
    trajectory_id,
    tree_id,
)
from silva.tree.formats import Bundle, write

USAGE = Usage(
    prompt_tokens=100,
    completion_tokens=20,
    cached_tokens=50,
    usd=0.25,
    model_seconds=1.5,
    env_seconds=0.5,
    silva_seconds=0.125,
)


def records() -> dict[str, list[AnyRecord]]:
    """Records by kind. Together they are one run with a tree of two branches."""
    run = Run(
        id="golden",
        command="loop",
        envs=("door", "window"),
        model="local",
        agent="tools",
        seed=7,
        config={"pool": 4, "budget": {"turns": None, "usd": 1.5}, "temperature": 0.7},
        lineage=Lineage(code="0.1.0", config="c0ffee", parents=("tasks@3",)),
        status="completed",
        started=1_700_000_000.25,
        finished=1_700_000_100.5,
        summary={"success": 0.5},
    )
    task = Task(
        id="door/1",
        env="door",
        instruction="Öffne die Tür.",
        split="train",
        data={"room": 3, "keys": ["red", None]},
        tags=("easy", "short"),
    )
    tree = tree_id(run.id, task.id)
    tool = Tool(name="open", description="Open it.", parameters={"type": "object", "properties": {"what": {}}})

    def node(parent: Node | None, author: Author, message: Message, place: str, **fields: object) -> Node:
        toolset = fields.get("tools")
        return Node(
            id=node_id(tree, parent.id if parent else None, author, message, toolset, place),  # type: ignore[arg-type]
            run_id=run.id,
            tree_id=tree,
            parent_id=parent.id if parent else None,
            depth=parent.depth + 1 if parent else 0,
            author=author,
            message=message,
            slot=place,
            **fields,  # type: ignore[arg-type]
        )

    picture = ImagePart(hash="ab" * 32, media_type="image/jpeg", width=640, height=480)
    prompt = Message(role="user", parts=(TextPart(text="Open the door."), picture), name="guide")
    root = node(None, Author.ENVIRONMENT, Message(role="system", parts=(TextPart(text="A room."),)), "", tools=(tool,))
    asked = node(root, Author.PERSON, prompt, "")
    thought = ThinkingPart(text="the red key", signature="sig")
    call = ToolCall(id="c1", name="open", arguments='{"what":  "door"}')
    broken = ToolCall(id="c2", name="open", arguments='{"what": ')
    acted = node(
        asked,
        Author.POLICY,
        Message(role="assistant", parts=(thought, TextPart(text="I open it.")), tool_calls=(call, broken)),
        slot(0, 0),
        tokens=Tokens(ids=(1, 2, 3, 4, 5), sampled=2, logprobs=(-0.5, -1.25)),
        model="local",
        policy_version="v3",
        finish_reason="tool_calls",
        usage=USAGE,
        started=1_700_000_001.5,
        attributes={"tokens": "restart"},
    )
    answered = node(
        acted,
        Author.ENVIRONMENT,
        Message(role="tool", parts=(TextPart(text="It opens."),), tool_call_id="c1", name="open"),
        slot(0, 0),
        tools=(),
        reward=1.0,
        risks=(Risk(kind="injection", severity=0.5, by="regex", evidence="ignore"),),
        snapshot_id="snap-1",
    )
    other = node(asked, Author.POLICY, Message(role="assistant", parts=(TextPart(text="No."),)), slot(1, 1))
    authors = [
        node(other, author, Message(role="user", parts=(TextPart(text=author),)), slot(1, 1))
        for author in (Author.ATTACKER, Author.SUMMARISER, Author.VERIFIER)
    ]
    done = Outcome(status=Status.COMPLETED, score=1.0, success=True, safety=0.75, metrics={"steps": 1.0, "f1": 0.5})
    broke = Outcome(
        status=Status.FAILED,
        failure=Failure(
            boundary=Boundary.INFRASTRUCTURE, code="host.died", message="the host process died", retryable=True
        ),
    )

    def trajectory(index: int, attempt: int, leaf: Node | None, outcome: Outcome, superseded: bool) -> Trajectory:
        return Trajectory(
            id=trajectory_id(run.id, task.id, index, attempt),
            run_id=run.id,
            tree_id=tree,
            task_id=task.id,
            env=task.env,
            index=index,
            attempt=attempt,
            seed=11,
            leaf_id=leaf.id if leaf else None,
            outcome=outcome,
            agent="tools",
            model="local",
            policy_version="v3",
            turns=1,
            reward=1.0,
            usage=USAGE,
            started=1_700_000_000.5,
            finished=1_700_000_002.5,
            superseded=superseded,
            attributes={"note": "golden"},
        )

    judged = Supervision(
        id="s1",
        node_id=acted.id,
        run_id=run.id,
        verdict="score",
        source="model",
        by="judge",
        reason="clear",
        value=0.5,
        at=1_700_000_200.0,
        attributes={"rubric": 2},
    )
    return {
        "run": [run],
        "task": [task, task.owned_by(run.id), msgspec.structs.replace(task, born={"verdict": "accepted", "round": 2})],
        "node": [root, asked, acted, answered, other, *authors],
        "trajectory": [
            trajectory(0, 0, answered, done, False),
            trajectory(1, 0, None, broke, True),
            trajectory(1, 1, other, Outcome(status=Status.TRUNCATED, score=0.0, success=False), False),
        ],
        "supervision": [judged],
    }


def bundle() -> Bundle:
    """The same records as formats carry them."""
    known = records()
    return Bundle(
        run=known["run"][0],  # type: ignore[arg-type]
        tasks=tuple(known["task"][:1]),  # type: ignore[arg-type]
        nodes=tuple(known["node"]),  # type: ignore[arg-type]
        trajectories=tuple(known["trajectory"]),  # type: ignore[arg-type]
        supervisions=tuple(known["supervision"]),  # type: ignore[arg-type]
    )


def main() -> None:
    """Write the folder of the current schema; refuse to change one that is there."""
    folder = Path(__file__).parent / f"v{SCHEMA}"
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder.name} is there already: golden files are written once, then only read")
    folder.mkdir(exist_ok=True)
    for kind, known in records().items():
        lines = [json.dumps(to_json(record), ensure_ascii=False) + "\n" for record in known]
        (folder / f"{kind}.jsonl").write_text("".join(lines), encoding="utf-8")
        frames = [encode(record) for record in known]
        framed = b"".join(len(frame).to_bytes(4, "little") + frame for frame in frames)
        (folder / f"{kind}.msgpack").write_bytes(framed)
    for name, ending in (("messages", "jsonl"), ("atif", "jsonl"), ("parquet", "parquet")):
        pieces = [p if isinstance(p, bytes) else p.encode() for p in write(name, [bundle()])]
        (folder / f"format-{name}.{ending}").write_bytes(b"".join(pieces))


if __name__ == "__main__":
    main()
