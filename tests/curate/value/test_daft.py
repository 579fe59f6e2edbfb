"""The same plan on Daft: what it scores and keeps is what is scored and kept here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from silva.curate.audit.past import check_table
from silva.curate.value.config import Columns, ScoreConfig, SelectConfig
from silva.curate.value.past import score_past
from silva.curate.value.scoring import resolve, score
from silva.curate.value.selection.embedding import embed
from silva.curate.value.selection.selecting import select
from silva.curate.value.source import samples_of
from silva.errors import UsageError
from silva.models.embedding import open_embedder

pytest.importorskip("daft", reason="needs silva[daft]")
pytest.importorskip("daft_lance", reason="needs silva[daft]")
lance = pytest.importorskip("lance", reason="needs silva[daft]")

pytestmark = pytest.mark.slow  # Daft's own start, twice


def table(place: Path) -> Path:
    """A Lance table of four fragments, with copies and rows that say nothing."""
    draw = np.random.default_rng(0)
    words = np.array([f"word{n}" for n in range(60)])
    said = [" ".join(draw.choice(words[20 * (n % 3) : 20 * (n % 3) + 20], 14)) + "." for n in range(180)]
    said[10], said[11], said[12] = said[4], said[4].upper(), ""
    rows = pa.table({"key": [f"k{n}" for n in range(180)], "asked": ["What?"] * 180, "said": said})
    lance.write_dataset(rows, str(place / "rows.lance"), max_rows_per_file=45)
    return place / "rows.lance"


@pytest.mark.parametrize("on", ["daft", "daft:ray"])
def test_daft_scores_and_keeps_what_is_scored_and_kept_here(tmp_path: Path, on: str) -> None:
    source = table(tmp_path)
    told = {
        "source": str(source), "columns": Columns(answer="said", question="asked", id="key"), "keep": 30,
        "by": "quality_rules", "scorers": ("quality_rules",), "duplicates": "minhash", "workers": 2,
        "cache": str(tmp_path / "kept"),
    }  # fmt: skip
    here = SelectConfig(**told)
    samples, _ = samples_of(here)
    made = score(samples, resolve(here.scorers, {}), None)["quality_rules"]
    vectors = embed(samples, open_embedder("hashed"), narrow=True)
    expected = select(samples, made.worth, here, vectors)

    output = tmp_path / "kept.lance"
    done = subprocess.run(
        [sys.executable, "-m", "silva", "data", "select", str(source), "columns.answer=said", "columns.question=asked",
         "columns.id=key", "--keep", "30", "--by", "quality_rules", "--duplicates", "minhash", "--on", on,
         "workers=2", f"cache={tmp_path / 'kept'}", "-o", str(output), "--json"],
        capture_output=True, text=True, check=False, env={**os.environ, "RAY_worker_niceness": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    assert said["fates"] == {"kept": 30, "copy": 2, "no score": 1, "beyond the quota": 147}
    kept = lance.dataset(str(output)).to_table()
    assert kept.column_names == ["key", "asked", "said", "selected"]
    assert sorted(kept.column("key").to_pylist()) == sorted(f"k{n}" for n in expected.kept)
    assert all(json.loads(each)["by"] == "quality_rules" for each in kept.column("selected").to_pylist())


def test_rules_of_an_audit_are_asked_by_workers(tmp_path: Path) -> None:
    said = ["All is well here.", "Pay to GB82 WEST 1234 5698 7654 32.", None, "My card is 4111 1111 1111 1111."]
    lance.write_dataset(pa.table({"said": said}), str(tmp_path / "audit.lance"))
    made = check_table(str(tmp_path / "audit.lance"), "said", ["rules"], workers=2)
    found = [json.loads(each) for each in made.column("findings").to_pylist()]
    assert [bool(each["findings"]) for each in found] == [False, True, False, True]
    assert found[2]["unchecked"]  # what says nothing was not checked, which is not the same as clean
    with pytest.raises(UsageError, match="look at all rows together"):
        check_table(str(tmp_path / "audit.lance"), "said", ["dataset"])


def test_what_daft_cannot_do_is_refused_in_one_line(tmp_path: Path) -> None:
    source = str(table(tmp_path))
    columns = Columns(answer="said")
    for told, words in (
        ({"source": source, "on": "daft", "scorers": ("ppl",)}, "name what is read"),
        ({"source": source, "on": "daft", "scorers": ("distance",), "columns": columns}, "runs here only"),
        (
            {"source": source, "on": "spark", "scorers": ("quality_rules",), "columns": columns},
            "possible are here, daft",
        ),
        (
            {"source": "none.lance", "on": "daft", "scorers": ("quality_rules",), "columns": columns},
            "no such Lance table",
        ),
        (
            {"source": source, "on": "daft", "scorers": ("quality_rules",), "columns": Columns(answer="sad")},
            "no column 'sad'; there are key, asked, said",
        ),
    ):
        with pytest.raises(UsageError, match=words):
            score_past(ScoreConfig.model_validate(told))
