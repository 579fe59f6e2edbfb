"""Indices are brought up to date while a lake is written, by a process apart; who writes or closes does not wait."""

from __future__ import annotations

import time

import pytest
from lake_records import episode

from silva.lake import Lake, compactor

pytestmark = pytest.mark.slow


def test_rows_come_into_the_indices_while_the_lake_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(compactor, "FRESH_AT", 50)
    with Lake.open(tmp_path / "lake") as lake:
        number, until = 0, time.monotonic() + 120
        while time.monotonic() < until:
            for _ in range(10):
                lake.append_sync(episode(number)[0])
                number += 1
            journal = lake._journal  # pyright: ignore
            assert journal is not None
            journal.seal()
            if number >= 10 and lake.stats().rows["nodes"] and lake.stats().unindexed < lake.stats().rows["nodes"]:
                break
            time.sleep(0.2)
        found = lake.stats()
        assert found.unindexed < found.rows["nodes"]
        assert lake._tables.text("reply", 5) is not None  # pyright: ignore
    with Lake.open(tmp_path / "lake", "read") as lake:
        assert len(lake.nodes()) == 6 * number and lake.doctor() == []


def test_closing_ends_what_indexes(tmp_path, monkeypatch):
    monkeypatch.setattr(compactor, "FRESH_AT", 50)
    with Lake.open(tmp_path / "lake") as lake:
        for number in range(20):
            lake.append_sync(episode(number)[0])
        assert lake._journal is not None  # pyright: ignore
        lake._journal.seal()  # pyright: ignore
    with Lake.open(tmp_path / "lake", "read") as lake:
        assert len(lake.nodes()) == 120 and lake.doctor() == []
