"""A tag keeps what it needs and nothing else."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from lake_records import episode

from silva.lake import Lake
from silva.tree import Run


def data_files(location: Path, table: str) -> int:
    return len(list((location / "tables" / f"{table}.lance" / "data").iterdir()))


@pytest.mark.filterwarnings("ignore:optimize")
@pytest.mark.parametrize("older", [False, True], ids=["", "tagged by an older version"])
def test_a_tag_keeps_its_own_files_and_the_rest_is_freed(tmp_path, older):
    location = tmp_path / "lake"
    with Lake.open(location) as lake:
        lake.append_sync([Run(id="r", status="tagged"), *episode(1)[0]])
        lake.compact()
        lake.optimize()
        lake.tag("then")
        if older:
            for name in ("runs", "nodes"):
                table = lake.tables.open(name)  # pyright: ignore
                assert table is not None
                table.branches.delete("tag-then")
                table.tags.create("then", table.version)
        for number in range(2, 8):
            lake.append_sync([Run(id="r", status=f"later {number}"), *episode(number)[0]])
            lake.compact()
        before = data_files(location, "runs")
        lake.optimize(keep=timedelta(0))
        assert data_files(location, "runs") < before and data_files(location, "runs") <= 3
        assert lake.doctor() == []
        with Lake.open(location, "read", version="then") as then:
            (run,) = then.runs()
            assert run.status == "tagged" and len(then.nodes()) == 6 and len(then.nodes(tree_id=run.id)) == 0
    with Lake.open(location, "read") as now:
        assert now.runs()[0].status == "later 7" and len(now.nodes()) == 42


def test_a_damaged_tag_is_left_out_by_name(tmp_path):
    with Lake.open(tmp_path / "lake") as lake:
        lake.append_sync(episode(1)[0])
        lake.tag("whole")
        lake.tag("broken")
        (tmp_path / "lake" / "tags" / "broken.json").write_bytes(b"\xff{")
        assert [version.name for version in lake.versions()] == ["whole"] and lake.stats().versions == ("whole",)
        assert [(finding.kind, finding.where) for finding in lake.doctor()] == [("tag", "tags/broken.json")]
