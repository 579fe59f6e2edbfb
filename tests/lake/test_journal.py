"""The journal: group commit, sealing, torn ends, damage."""

from __future__ import annotations

import asyncio
import os
import random

import pytest
from lake_records import episode, held, task

from silva.errors import StoreError
from silva.lake.frames import MAGIC, entry, frames, scan
from silva.lake.journal import Journal
from silva.lake.recovery import ends, recover
from silva.lake.segment import segments


def journal(folder, **settings) -> Journal:
    return Journal(folder, where="here", number=settings.pop("number", 1), **settings)


async def test_thousands_of_coroutines_are_all_kept_once_in_order_of_each(tmp_path):
    log = journal(tmp_path)

    async def one(number: int) -> None:
        for step in range(3):
            await log.append(frames([task(number * 10 + step)]))

    await asyncio.gather(*(one(number) for number in range(2_000)))
    log.close()
    ids = held(tmp_path)
    assert len(ids) == len(set(ids)) == 6_000
    place = {each: index for index, each in enumerate(ids)}
    assert all(place[f"env/{n * 10}"] < place[f"env/{n * 10 + 1}"] < place[f"env/{n * 10 + 2}"] for n in range(2_000))


async def test_what_is_acknowledged_is_in_the_file(tmp_path):
    log = journal(tmp_path)
    await log.append(frames([task(1)]))
    assert held(tmp_path) == ["env/1"]
    log.close()


def test_segments_are_sealed_at_their_size_and_numbered_upwards(tmp_path):
    sealed: list[int] = []
    log = journal(tmp_path, number=7, seal_bytes=500, sealed=sealed.append, window=0)
    for number in range(40):
        log.append_sync(frames([task(number)]))
    log.close()
    assert sealed == list(range(7, 7 + len(sealed))) and len(sealed) > 2
    assert {path.suffix for path in segments(tmp_path).values()} == {".sealed"}
    assert held(tmp_path) == [f"env/{number}" for number in range(40)]


def test_an_empty_journal_leaves_nothing_behind(tmp_path):
    journal(tmp_path).close()
    assert segments(tmp_path) == {}


async def test_a_cancelled_append_does_not_stop_the_others(tmp_path):
    log = journal(tmp_path, window=0.02)
    waiting = [asyncio.ensure_future(log.append(frames([task(number)]))) for number in range(10)]
    await asyncio.sleep(0)
    waiting[3].cancel()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    log.close()
    assert [isinstance(each, asyncio.CancelledError) for each in done] == [number == 3 for number in range(10)]
    assert sorted(held(tmp_path)) == sorted(f"env/{number}" for number in range(10))


def test_a_closed_journal_refuses(tmp_path):
    log = journal(tmp_path)
    log.close()
    with pytest.raises(StoreError, match="is closed"):
        log.append_sync(frames([task(1)]))


def test_every_torn_end_is_cut_to_the_last_whole_frame(tmp_path):
    data = MAGIC + frames([task(number) for number in range(5)])
    whole = [len(MAGIC)]
    for number in range(5):
        whole.append(whole[-1] + len(frames([task(number)])))
    for cut in range(len(data) + 1):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "0000000001.open").write_bytes(data[:cut])
        recover(folder, "here")
        kept = sum(end <= cut for end in whole[1:])
        assert held(folder) == [f"env/{number}" for number in range(kept)]


def test_garbage_after_the_end_is_cut_too(tmp_path):
    journal = tmp_path / "journal"
    journal.mkdir()
    (journal / "0000000001.open").write_bytes(MAGIC + frames([task(1)]) + bytes(4096))
    assert recover(journal, "here") == 1
    assert held(journal) == ["env/1"] and ends(journal) == []


def test_what_is_cut_off_an_end_is_kept_to_the_byte(tmp_path):
    journal = tmp_path / "journal"
    journal.mkdir()
    last = frames([task(2)])[:-1]
    (journal / "0000000001.open").write_bytes(MAGIC + frames([task(1)]) + last)
    (journal / "0000000002.open").write_bytes(MAGIC + last + bytes(4096))
    assert recover(journal, "here") == 2
    assert held(journal) == ["env/1"]
    assert [path.read_bytes() for path in ends(journal)] == [last, last]


def test_damage_in_the_middle_is_refused_by_name_and_what_is_whole_is_found(tmp_path):
    data = bytearray(MAGIC + frames([task(number) for number in range(50)]))
    data[len(MAGIC) + 200] ^= 0xFF
    path = tmp_path / "0000000001.open"
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"segment 1 is damaged at byte \d+; run `silva lake doctor --repair`"):
        recover(tmp_path, "here")
    found = scan(bytes(data), len(MAGIC))
    assert len(found.payloads) == 49 and not found.damage[0].tail


def test_any_single_flipped_bit_loses_at_most_the_frames_it_touches(tmp_path):
    records = episode(1, turns=20)[0]
    data = frames(records)
    rng = random.Random(5)
    for _ in range(200):
        bad = bytearray(data)
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        found = scan(bytes(bad))
        assert found.damage and len(found.payloads) >= len(records) - 1
        assert all(entry(payload) in records for payload in found.payloads)


def test_random_bytes_are_no_records():
    assert scan(os.urandom(100_000)).payloads == []


def test_text_that_is_no_unicode_is_refused_in_one_line():
    with pytest.raises(StoreError, match="task env/1 cannot be written"):
        frames([task(1), task(1).__class__(id="env/1", env="\ud800")])


def test_a_thread_that_dies_of_anything_tells_all_who_wait_and_all_who_come(tmp_path):
    journal = Journal(tmp_path, where="here", number=1)
    journal.append_sync(frames([task(1)]))

    def breaks(*_: object) -> None:
        raise ValueError("no one thought of this")

    journal._segment.write = breaks  # pyright: ignore
    for _ in range(2):
        with pytest.raises(StoreError, match=r"its journal ended .ValueError: no one thought of this") as caught:
            journal.append_sync(frames([task(2)]))
        assert "\n" not in str(caught.value)
    with pytest.raises(StoreError, match="its journal ended"):
        journal.seal()
    journal.close()
    assert held(tmp_path) == ["env/1"]
