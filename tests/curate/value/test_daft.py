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

from silva.cli.audit import app as cli
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
        capture_output=True, text=True, check=False,
        env={**os.environ, "RAY_worker_niceness": "0", "RAY_ADDRESS": "local"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    assert said["fates"] == {"kept": 30, "copy": 2, "no score": 1, "beyond the quota": 147}
    kept = lance.dataset(str(output)).to_table()
    assert kept.column_names == ["key", "asked", "said", "selected"]
    assert sorted(kept.column("key").to_pylist()) == sorted(f"k{n}" for n in expected.kept)
    assert all(json.loads(each)["by"] == "quality_rules" for each in kept.column("selected").to_pylist())


def test_an_audit_on_daft_says_what_an_audit_here_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = "Pay to GB82 WEST 1234 5698 7654 32."
    said = ["All is well here.", secret, None, "My card is 4111 1111 1111 1111.", *["The sky is blue."] * 2]
    keys = [f"k{number}" for number in range(len(said))]
    lance.write_dataset(pa.table({"key": keys, "said": said}), str(tmp_path / "pool.lance"))
    rows = [{"id": key, "text": text} for key, text in zip(keys, said, strict=True)]
    (tmp_path / "pool.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    more = ["--checker", "rules", "--checker", "backdoor_association", "--alarms", "own", "--json"]
    assert not cli([str(tmp_path / "pool.jsonl"), *more, "--findings", str(tmp_path / "here")], standalone_mode=False)
    here = json.loads(capsys.readouterr().out)
    words = [str(tmp_path / "pool.lance"), "columns.answer=said", "columns.id=key", "--on", "daft", "--workers", "2"]
    assert not cli([*words, *more, "--findings", str(tmp_path / "there")], standalone_mode=False)
    there = json.loads(capsys.readouterr().out)
    assert here["rows"] == there["rows"] == 5 and here["prevalence"] == there["prevalence"]
    found = [_found(tmp_path / name) for name in ("here", "there")]
    assert [each[1:] for each in found[0]] == [each[1:] for each in found[1]]
    assert {each[0] for each in found[1]} >= {"k1", "k3"} and len(there["not_read"]) == 1  # k2 says nothing


def _found(file: Path) -> list[tuple[str, str, str, float]]:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [(each["row_id"], each["risk"], each["checker"], each["score"]) for each in lines if "risk" in each]


def test_an_audit_on_daft_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    source = str(table(tmp_path))
    for words, says in (
        (["--on", "daft"], "name what is read: columns.answer=NAME"),
        (["--on", "daft", "columns.answer=sad"], "no column 'sad'; there are key, asked, said"),
        (["columns.answer=said"], "are read with --on daft"),
        (["--on", "daft", "columns.answer=said", "--where", "score > 0"], "trajectories of a lake"),
    ):
        with pytest.raises(UsageError, match=says):
            cli([source, "--checker", "rules", *words, "--dry-run"], standalone_mode=False)


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
