"""Which rows are kept, that quotas are exact, and that each row says why it is there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silva.curate.rows import read
from silva.curate.rows.writing import object_of
from silva.curate.value.config import SelectConfig
from silva.curate.value.sample import Samples
from silva.curate.value.selection.clusters import clusters
from silva.curate.value.selection.duplicates import exact, key, minhash, semantic, signatures
from silva.curate.value.selection.quota import quotas
from silva.curate.value.selection.selecting import COPY, KEPT, PASSED, UNSCORED, select
from silva.errors import UsageError


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12), st.floats(0, 1))
def test_quotas_are_exact_in_proportion_and_within_sizes(sizes: list[int], part: float) -> None:
    total = int(part * sum(sizes))
    made = quotas(sizes, total)
    assert sum(made) == total
    for size, quota in zip(sizes, made, strict=True):
        assert 0 <= quota <= size
        assert not total or abs(quota - total * size / sum(sizes)) < 1
    with pytest.raises(UsageError):
        quotas(sizes, sum(sizes) + 1)


def blobs(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """60, 30 and 10 vectors about three axes."""
    draw = np.random.default_rng(seed)
    truth = np.repeat([0, 1, 2], [60, 30, 10])
    vectors = np.eye(3, 16, dtype=np.float32)[truth] + 0.05 * draw.standard_normal((100, 16)).astype(np.float32)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), truth


def test_clusters_are_found_and_are_the_same_for_the_same_seed() -> None:
    vectors, truth = blobs()
    found = clusters(vectors, 3, seed=4)
    assert [*found] == [*truth]  # numbered by size
    assert [*found] == [*clusters(vectors, 3, seed=4)]
    assert len(set(clusters(np.ones((5, 4), np.float32), 3))) == 1
    assert [*np.bincount(clusters(vectors, 1000))].count(1) >= 90


def samples(texts: list[str]) -> Samples:
    ids = [str(number) for number in range(len(texts))]
    return Samples(pa.table({"id": ids, "question": [""] * len(texts), "answer": texts}))


def test_the_best_of_each_cluster_is_kept_by_quota_and_says_so() -> None:
    vectors, truth = blobs()
    worth = np.random.default_rng(1).random(100)
    worth[5] = np.nan
    told = SelectConfig(keep=20, clusters=3, duplicates="none", by="field", seed=3)
    made = select(samples([f"row {n}" for n in range(100)]), worth, told, vectors)
    assert made.size == [59, 30, 10] and made.quota == [12, 6, 2] and len(made.kept) == 20
    for cluster in range(3):
        able = np.flatnonzero((truth == cluster) & ~np.isnan(worth))
        best = able[np.argsort(-worth[able])][: made.quota[cluster]]
        assert {*best} == {*made.kept[truth[made.kept] == cluster]}
    assert [made.fate[5], made.fate.count(KEPT), made.fate.count(PASSED)] == [UNSCORED, 20, 79]
    first = int(made.kept[np.argmin(made.rank[made.kept])])
    assert made.why(first, told) == {
        "by": "field", "rank": 1, "method": "cluster", "cluster": int(truth[first]), "rank_in_cluster": 1, "seed": 3,
        "cluster_size": made.size[truth[first]], "quota": made.quota[truth[first]],
    }  # fmt: skip


def test_of_copies_the_one_that_is_worth_most_stays() -> None:
    base = (
        "The quick brown fox jumps over the lazy dog while seven wizards look on from a green hill in the evening sun"
    )
    texts = [base, f"{base.upper()} ", f"{base} today", "Something else is said here about ships and how they sail"]
    order = [2, 1, 0, 3]
    assert [*exact([key(text) for text in texts], order)] == [1, -1, -1, -1]
    assert [*minhash(signatures(texts), order, 0.8)] == [2, 2, -1, -1]
    assert [*minhash(signatures(["", "", "one two"]), [0, 1, 2], 0.8)] == [
        -1,
        -1,
        -1,
    ]
    vectors = np.array([[1, 0], [0.99, 0.141], [0.96, 0.28], [0, 1], [0, 0], [0, 0]], np.float32)
    one = np.zeros(6, np.int64)
    assert [*semantic(vectors, one, [1, 0, 2, 3, 4, 5], 0.98)] == [1, -1, 1, -1, -1, -1]
    # a chain: 2 is like 1 alone, which is itself a copy of 0; it stays
    assert [*semantic(vectors[:3], one[:3], [0, 1, 2], 0.985)] == [-1, 0, -1]
    made = select(samples(texts), np.array([1.0, 2, 3, 0]), SelectConfig(share=1.0, method="top", duplicates="exact"))
    assert made.fate == [COPY, KEPT, KEPT, KEPT]


def test_minhash_finds_what_is_as_alike_as_is_asked() -> None:
    draw = np.random.default_rng(0)
    words = [f"w{n}" for n in range(400)]
    texts: list[str] = []
    for _ in range(40):
        base = [*draw.choice(words, 120)]
        texts += [" ".join(base), " ".join([*base[:114], *draw.choice(words, 6)])]  # Jaccard about 0.9
    found = minhash(signatures(texts), range(len(texts)), 0.75)
    assert sum(found[1::2] == np.arange(0, 80, 2)) >= 38 and set(found[::2]) == {-1}


def test_coverage_takes_far_rows_first_and_chance_is_seeded() -> None:
    vectors, truth = blobs()
    texts = samples([f"row {n}" for n in range(100)])
    made = select(texts, np.ones(100), SelectConfig(keep=3, method="coverage", duplicates="none"), vectors)
    assert {*truth[made.kept]} == {0, 1, 2}
    drawn = [select(texts, np.ones(100), SelectConfig(keep=9, method="random", seed=seed)).kept for seed in (1, 1, 2)]
    assert [*drawn[0]] == [*drawn[1]] != [*drawn[2]]


def test_more_than_there_is_and_rows_without_a_score_are_refused() -> None:
    texts, worth = samples(["a b", "a  B", "c d"]), np.array([1.0, 2.0, np.nan])
    with pytest.raises(UsageError, match=r"only 1 of 3 rows can be chosen .1 have no score, 1 are copies"):
        select(texts, worth, SelectConfig(keep=2, method="top"))
    with pytest.raises(UsageError, match="1 of 3 rows have no score by fused"):
        select(texts, worth, SelectConfig(keep=1, unscored="refuse", method="top"))
    with pytest.raises(UsageError, match="say how many rows"):
        select(texts, worth, SelectConfig(method="top"))


def test_a_row_is_written_as_what_it_was_read_from(tmp_path: Path) -> None:
    lines = [
        {"question": "Red?", "answer": "Yes.", "n": 3, "label": "good"},
        {"text": "Some words.", "tag": ["a"]},
        {"prompt": "Go?", "chosen": "Stop.", "rejected": "Go."},
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]},
    ]
    file, again = tmp_path / "rows.jsonl", tmp_path / "again.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = list(read(str(file)))
    again.write_text("".join(json.dumps(object_of(row)) + "\n" for row in rows))
    for before, after in zip(rows, read(str(again)), strict=True):
        assert (before.content, before.kind, before.label, before.data) == (
            after.content, after.kind, after.label, after.data,
        )  # fmt: skip


def silva(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "silva", *words], capture_output=True, text=True, check=False)


def test_the_command_selects_rows_of_a_file_and_of_columns(tmp_path: Path) -> None:
    table = pa.table(
        {
            "name": [f"n{n}" for n in range(40)],
            "said": [f"{'cats purr' if n % 2 else 'ships sail'} {n} times and more." for n in range(40)],
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    lines = [{"text": text, "mark": number} for number, text in enumerate(table.column("said").to_pylist())]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    chosen, fates = tmp_path / "chosen.jsonl", tmp_path / "fates.jsonl"
    made = silva(
        "data", "select", str(tmp_path / "t.jsonl"), "--by", "field", "--keep", "6", "options.field.name=mark",
        "clusters=2", "-o", str(chosen), "--fates", str(fates), "--json",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    rows = [json.loads(line) for line in chosen.read_text().splitlines()]
    assert [row["mark"] for row in rows] == [34, 35, 36, 37, 38, 39]  # three of each cluster of 20
    assert rows[0]["selected"] == {
        "by": "field", "cluster": rows[0]["selected"]["cluster"], "cluster_size": 20, "method": "cluster", "quota": 3,
        "rank": 6, "rank_in_cluster": 3, "scores": {"field": 34.0}, "seed": 0,
    }  # fmt: skip
    assert len(fates.read_text().splitlines()) == 40
    assert json.loads(made.stdout)["fates"] == {"kept": 6, "beyond the quota": 34}
    assert json.loads(chosen.with_suffix(".selection.json").read_text())["scorers"].keys() == {"field"}

    output = tmp_path / "kept.parquet"
    columns = ("columns.answer=said", "columns.id=name")
    made = silva(
        "data",
        "select",
        str(tmp_path / "t.parquet"),
        *columns,
        "--by",
        "quality_rules",
        "--share",
        "0.25",
        "-o",
        str(output),
    )
    assert made.returncode == 0, made.stderr
    kept = parquet.read_table(output)
    assert kept.num_rows == 10 and kept.column_names == ["name", "said", "selected"]
    wrong = silva(
        "data", "select", str(tmp_path / "t.parquet"), "columns.answer=sad", "--by", "quality_rules", "-o", "x.jsonl"
    )
    assert wrong.returncode == 2 and "there is no column 'sad'; there are name, said" in wrong.stderr
