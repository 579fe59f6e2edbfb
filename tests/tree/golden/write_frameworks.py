"""Write what Silva makes of the golden bundle in the formats that carry its extension in a place of their own.

    python tests/tree/golden/write_frameworks.py NAME …     writes tests/tree/golden/frameworks/silva-NAME.* (none: all)

Those for verifiers, OpenEnv and Inspect are read by check_with_real_tools.py. A stored file is what an earlier Silva
wrote and must still open: write one anew only where its format is given up.

To the bundle of write.py come two rollouts whose tokens are exact, a retry that branches, and an embedded picture.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from silva.tree import Author, ImagePart, Outcome, Run, Status, Task, Tokens, Usage, assistant, call, tool_result, user
from silva.tree.formats import FORMATS, Bundle, write
from silva.tree.formats.draft import Origin, Turn
from silva.tree.formats.graph import Rollout, Vertex, grow_graph

HERE = Path(__file__).parent
DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c020000000b4944415478da6364f8cf500f000386018060135a"
    "7dda0000000049454e44ae426082"
)


def golden_bundle() -> Bundle:
    """The bundle of write.py."""
    spec = importlib.util.spec_from_file_location("golden_write", HERE / "write.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert isinstance(module, ModuleType)
    return module.bundle()


def exact_bundle(index: int) -> Bundle:
    """A rollout with the ids of every turn; the second reply was tried twice."""
    picture = ImagePart(hash=hashlib.sha256(DOT).hexdigest())

    def said(message, parent, ids=(), sampled=0, finish=""):
        tokens = Tokens(ids=ids, sampled=sampled, logprobs=(-0.5,) * sampled) if ids else None
        usage = Usage(prompt_tokens=8, completion_tokens=sampled, model_seconds=0.5) if sampled else Usage()
        turn = Turn(
            message=message, tokens=tokens, model="local" if sampled else "", usage=usage, started=1_700_000_000.0
        )
        author = Author.POLICY if sampled else Author.ENVIRONMENT
        return Vertex(turn=turn, parent=parent, author=author, finish_reason=finish)

    vertices = (
        said(user("What is it?", picture), None),
        said(assistant("", call("look", {"at": "it"}, "c1")), 0, (1, 2, 3, 4, 5), 2, "tool_calls"),
        said(tool_result("c1", "a dot", "look"), 1),
        said(assistant("A line."), 2, (6, 7, 8, 9), 2, "stop"),
        said(assistant("A dot."), 2, (6, 7, 10, 11 + index, 9), 3, "stop"),
    )
    rollout = Rollout(
        origin=Origin(
            run=Run(id="exact"), task=Task(id="shapes/dot", env="shapes", instruction="What is it?"), index=index
        ),
        vertices=vertices,
        leaf=4,
        outcome=Outcome(status=Status.COMPLETED, score=1.0 - index, success=index == 0),
        reward=1.0 - index,
        agent="tools",
        model="local",
        started=1_700_000_000.0,
        finished=1_700_000_002.0,
        blobs={picture.hash: DOT},
    )
    return grow_graph(rollout, "golden", 0)


def bundles() -> list[Bundle]:
    """All that is written."""
    return [golden_bundle(), exact_bundle(0), exact_bundle(1)]


NAMES = ("verifiers", "openenv", "inspect", "sharegpt", "adp", "otel")


def main(folder: Path = HERE / "frameworks", names: Sequence[str] = NAMES) -> None:
    """Write the files."""
    for name in names:
        pieces = [piece if isinstance(piece, bytes) else piece.encode() for piece in write(name, bundles())]
        (folder / f"silva-{name}{FORMATS[name].ending}").write_bytes(b"".join(pieces))


if __name__ == "__main__":
    main(names=sys.argv[1:] or NAMES)
