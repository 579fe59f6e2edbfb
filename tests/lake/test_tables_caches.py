"""What an open lake keeps of its tables in memory has a bound, however many versions of them pass by."""

from __future__ import annotations

from pathlib import Path

from lake_records import episode

from silva.lake import Lake


def test_what_is_kept_of_the_tables_has_a_bound(tmp_path: Path) -> None:
    kept: list[int] = []
    for caches_mb in (0.09, 288.0):
        with Lake.open(tmp_path / f"{caches_mb:g}", caches_mb=caches_mb) as lake:
            for number in range(20):
                nodes, trajectory = episode(number)
                lake.append_sync([*nodes, trajectory])
                lake.compact()
                assert len(lake.nodes(tree_id=trajectory.tree_id)) == len(nodes)
            kept.append(lake.tables._kept.size_bytes)
    few, many = kept
    assert few <= 0.09 * (1 << 20) < many, "without the bound it is more"
