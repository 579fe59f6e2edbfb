"""Full text and nearest vectors over nodes.

Text: what a query means is said in `words`. Plain words are found by Lance's index over `nodes.text` (rows not yet in
it are scanned by Lance), and by BM25 over the tail; what is no plain word by reading the texts. They keep
their own word statistics, so scores of stored and of fresh nodes are comparable, not equal. Vectors: a table of their
own, so that embedding later never rewrites nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa

from silva.errors import StoreError, UsageError
from silva.lake.columns import NODES
from silva.lake.filters import literal
from silva.lake.reader import stored_ids
from silva.lake.rows import read
from silva.lake.tables import EMBEDDINGS, Tables
from silva.lake.tail import Tail
from silva.lake.words import parts, plain, score
from silva.tree import Node

Embedding: TypeAlias = Callable[[list[str]], Sequence[Sequence[float]]]
_COMMIT = 8_192


def text(tables: Tables, tail: Tail | None, query: str, limit: int) -> list[tuple[float, Node]]:
    """Nodes whose text holds any part of `query` (see `words`), best first."""
    wanted = parts(query)
    if not wanted:
        raise UsageError("search: give at least one word")
    fresh: list[Node] = []
    if tail is not None:
        tail.refresh()
        fresh = tail.records(NODES)
    scored = [
        (each, node) for each, node in zip(score(wanted, [_text(n) for n in fresh]), fresh, strict=True) if each > 0
    ]
    scored = sorted(scored, key=lambda pair: -pair[0])[:limit]
    # Asked before the index is: what is compacted in between is then seen twice, never missed.
    known = stored_ids(tables, NODES, [node.id for _, node in scored])
    found: list[tuple[float, Node]] = []
    rows = tables.text(" ".join(wanted), limit) if plain(wanted) else None
    if rows is not None:
        scores = dict(zip(rows.column("id").to_pylist(), rows.column("_score").to_pylist(), strict=True))
        stored = read(NODES, rows, tables.leave_out)
        found = [(scores[node.id], node) for node in stored if score(wanted, [_text(node)])[0] > 0]
    else:
        found = _scan(tables, wanted, limit)
    seen = known | {node.id for _, node in found}
    found += [(each, node) for each, node in scored if node.id not in seen]
    return sorted(found, key=lambda pair: -pair[0])[:limit]


def widened(found: list[tuple[float, Node]], cold: Tables | None, query: str, limit: int) -> list[tuple[float, Node]]:
    """What was found, and what is found in the cold tier."""
    if cold is None:
        return found
    known = {node.id for _, node in found}
    more = [each for each in text(cold, None, query, limit) if each[1].id not in known]
    return sorted([*found, *more], key=lambda pair: -pair[0])[:limit]


def _scan(tables: Tables, wanted: Sequence[str], limit: int) -> list[tuple[float, Node]]:
    # There is no index yet, or it does not hold what is asked for: read the texts themselves.
    rows = tables.select(NODES.name, "text is not null", columns=["id", "text"])
    if rows is None:
        return []
    scores = score(wanted, rows.column("text").to_pylist())
    best = sorted((i for i, each in enumerate(scores) if each > 0), key=lambda i: -scores[i])[:limit]
    ids = rows.column("id").take(best).to_pylist() if best else []
    return _nodes(tables, list(zip([scores[i] for i in best], ids, strict=True)))


def _nodes(tables: Tables, scored: list[tuple[float, str]]) -> list[tuple[float, Node]]:
    if not scored:
        return []
    some = ", ".join(literal(each) for _, each in scored)
    rows = tables.select(NODES.name, f"id in ({some})")
    by_id = {node.id: node for node in read(NODES, rows, tables.leave_out)} if rows is not None else {}
    return [(each, by_id[node_id]) for each, node_id in scored if node_id in by_id]


def _text(node: Node) -> str:
    return node.message.text


def embed(tables: Tables, function: Embedding, column: str, batch: int) -> int:
    """Store vectors for the stored nodes that have none; return how many."""
    spec = NODES.column(column)
    if spec is None or not pa.types.is_string(spec.type):
        raise UsageError(f"embed: nodes has no text column {column}")
    rows = tables.select(NODES.name, f"{spec.name} is not null", columns=["id", spec.name])
    if rows is None:
        return 0
    known_rows = tables.select(EMBEDDINGS, columns=["id"])
    known = set() if known_rows is None else set(known_rows.column("id").to_pylist())
    pairs = zip(rows.column("id").to_pylist(), rows.column(spec.name).to_pylist(), strict=True)
    wanted = [(each, words) for each, words in pairs if each not in known]
    for start in range(0, len(wanted), _COMMIT):
        some = wanted[start : start + _COMMIT]
        vectors: list[Sequence[float]] = []
        for place in range(0, len(some), batch):
            vectors += function([words for _, words in some[place : place + batch]])
        if len(vectors) != len(some) or len({len(vector) for vector in vectors}) != 1:
            raise UsageError(
                f"embed: the function gave {len(vectors)} vectors for {len(some)} texts, or of several lengths"
            )
        _store(tables, [each for each, _ in some], vectors)
    return len(wanted)


def _store(tables: Tables, ids: list[str], vectors: Sequence[Sequence[float]]) -> None:
    length = len(vectors[0])
    started = time.time() - 1.0
    table = tables.open(EMBEDDINGS)
    if table is None:
        schema = pa.schema([pa.field("id", pa.string(), False), pa.field("vector", pa.list_(pa.float32(), length))])
        table = tables.create(EMBEDDINGS, schema)
    stored = table.schema.field("vector").type.list_size
    if stored != length:
        raise UsageError(f"embed: the function gives vectors of {length} numbers, the lake stores {stored}")
    rows = pa.table({"id": ids, "vector": [list(map(float, vector)) for vector in vectors]}, schema=table.schema)
    with tables.refusals("store vectors"):
        table.merge_insert("id").when_not_matched_insert_all().execute(rows)
        tables.settle(EMBEDDINGS, started)


def nearest(
    tables: Tables, cold: Tables | None, vector: Sequence[float], limit: int, where: str
) -> list[tuple[float, Node]]:
    """Nodes whose vectors are nearest by cosine, best first, with their similarity. A vector may stand in another tier
    than its node, as while it is moved."""
    tiers = [tables] if cold is None else [tables, cold]
    stored = [table for tier in tiers if (table := tier.open(EMBEDDINGS)) is not None]
    if not stored:
        raise StoreError(f"lake {where}: stores no vectors; call lake.embed(function) first")
    found: dict[str, float] = {}
    for table in stored:
        length = table.schema.field("vector").type.list_size
        if len(vector) != length:
            raise UsageError(f"nearest: the vector has {len(vector)} numbers, the lake stores {length}")
        with tables.refusals("search vectors"):
            near = table.search(list(map(float, vector)), vector_column_name="vector").distance_type("cosine")
            rows = near.limit(limit).to_arrow()
        for distance, each in zip(rows.column("_distance").to_pylist(), rows.column("id").to_pylist(), strict=True):
            found.setdefault(each, 1.0 - distance)
    best = sorted(((score, each) for each, score in found.items()), key=lambda pair: -pair[0])[:limit]
    nodes: dict[str, tuple[float, Node]] = {}
    for tier in tiers:
        nodes.update((node.id, (score, node)) for score, node in _nodes(tier, [p for p in best if p[1] not in nodes]))
    return [nodes[each] for _, each in best if each in nodes]


def move_vectors(near: Tables, far: Tables, ids: Sequence[str]) -> None:
    """Move the vectors of nodes to the cold tier. A kill leaves each in one tier or in both.

    Raises:
        UsageError: the cold tier stores vectors of another length.
    """
    for start in range(0, len(ids), _COMMIT):
        condition = f"id in ({', '.join(map(literal, ids[start : start + _COMMIT]))})"
        rows = near.select(EMBEDDINGS, condition)
        if rows is not None and rows.num_rows:
            _store(far, rows.column("id").to_pylist(), rows.column("vector").to_pylist())
            near.delete(EMBEDDINGS, condition)


def drop_vectors(tables: Tables, ids: Sequence[str]) -> None:
    """Let go of the vectors of nodes."""
    if tables.open(EMBEDDINGS) is not None:
        for start in range(0, len(ids), _COMMIT):
            tables.delete(EMBEDDINGS, f"id in ({', '.join(map(literal, ids[start : start + _COMMIT]))})")
