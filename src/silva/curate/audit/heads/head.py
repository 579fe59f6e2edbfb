"""A head: weights of one risk, read from a small file, and the score they give."""

from __future__ import annotations

import hashlib
import io
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from silva.curate.audit.heads.features import BUCKETS, Vectors, weighted
from silva.errors import MissingError, UsageError

FOLDER = Path(__file__).parent / "weights"
_MOST_BYTES = 1 << 20


class Head(NamedTuple):
    """Weights of one risk. `dense` are of the embedding (or of `paired` features), `sparse` and `rarity` of the hashed
    n-grams (empty where there are none); `version` is a digest of all. `told` says what it was trained on."""

    name: str
    version: str
    dense: Vectors
    sparse: Vectors
    rarity: Vectors
    bias: float
    embedder: str
    told: dict[str, Any]

    def score(self, dense: Vectors, counts: Vectors | None = None) -> Vectors:
        """The scores of rows, [rows], in [0, 1].

        Args:
            dense: what `dense` weighs, [rows, d].
            counts: `grams` of each, [rows, BUCKETS], where the head has weights for them.
        """
        said = dense @ self.dense + self.bias
        if len(self.sparse) and counts is not None:
            said = said + weighted(counts, self.rarity) @ self.sparse
        return (1 / (1 + np.exp(-np.clip(said, -30, 30)))).astype(np.float32)


def write_head(
    name: str, dense: Vectors, sparse: Vectors, rarity: Vectors, bias: float, told: dict[str, Any], folder: Path
) -> Path:
    """Write a head's file (half precision, compressed); return it."""
    kept = {"dense": dense.astype(np.float16), "bias": np.float32(bias)}
    if len(sparse):
        kept |= {"sparse": sparse.astype(np.float16), "rarity": rarity.astype(np.float16)}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.npz"
    np.savez_compressed(path, allow_pickle=False, told=np.array(json.dumps(told, sort_keys=True)), **kept)
    return path


@cache
def read_head(name: str, folder: Path = FOLDER) -> Head:
    """The head of that name.

    Raises:
        MissingError: it was not made yet.
        UsageError: the file is no head.
    """
    path = folder / f"{name}.npz"
    if not path.is_file():
        raise MissingError(f"the head {name} has no weights here; make them with: silva curate heads {name}")
    if path.stat().st_size > _MOST_BYTES:
        raise UsageError(f"audit: {path.name}: is larger than any head is")
    data = path.read_bytes()
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as kept:
            told = json.loads(str(kept["told"]))
            dense = kept["dense"].astype(np.float32)
            sparse = kept["sparse"].astype(np.float32) if "sparse" in kept else np.zeros(0, np.float32)
            rarity = kept["rarity"].astype(np.float32) if "rarity" in kept else np.zeros(0, np.float32)
            bias = float(kept["bias"])
            facts = [kept[key].tobytes() for key in sorted(kept.files) if key != "told"]
    except (OSError, ValueError, KeyError, EOFError) as fault:
        raise UsageError(f"audit: {path.name}: is no head ({' '.join(str(fault).split())})") from fault
    if len(sparse) not in (0, BUCKETS) or len(sparse) != len(rarity) or dense.ndim != 1:
        raise UsageError(f"audit: {path.name}: is a head of another shape")
    version = hashlib.blake2b(b"\0".join(facts), digest_size=6).hexdigest()
    return Head(name, version, dense, sparse, rarity, bias, str(told.get("embedder", "")), told)
