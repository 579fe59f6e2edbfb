"""Samples read by the workers of a real Ray cluster. Needs ray: pip install 'ray[serve]==2.60.0'."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from played import play

from silva.cli.main import run as silva
from silva.errors import Exit
from silva.lake import Lake
from silva.rollout.on_ray.shares import cut
from silva.tree import Author, Run, tree_id

sys.path.append(str(Path(__file__).parents[1] / "rollout"))
from ray_cluster import TwoNodes, needs_ray, two_nodes

TREES = 12

changed: Any = msgspec.structs.replace


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    with pytest.MonkeyPatch.context() as patch, two_nodes(tmp_path_factory.mktemp("ray") / "log", patch) as found:
        yield found


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Trees of several shapes, with supervision; one that cannot be read exactly."""
    folder = tmp_path_factory.mktemp("lakes") / "lake"

    async def fill() -> None:
        async with Lake.open(folder) as opened:
            await opened.append([Run(id="run", status="completed")])
            for seed in range(TREES):
                played = play(seed, steps=10 + 5 * seed)
                nodes = list(played.tree)
                if seed == TREES // 2:
                    lost = next(node for node in nodes if node.author is Author.POLICY)
                    nodes[nodes.index(lost)] = changed(lost, tokens=None)
                await opened.append([*nodes, *played.trajectories, *played.supervisions])

    asyncio.run(fill())
    return str(folder)


def samples(lake: str, output: Path, *words: str) -> int:
    return silva(["train", "samples", "--lake", lake, "--run", "run", "-o", str(output), *words])


@pytest.mark.slow
@needs_ray
def test_the_file_is_that_of_one_process_to_the_byte(
    lake: str, cluster: TwoNodes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    there = ("--on", "ray", "--ray-address", cluster.address)
    forms = ("--once", "tree", "--ray-workers", "5"), ("-f", "trl-sft", "--limit", "60", "--overlong", "truncate")
    for words, ending in zip(forms, (".samples", ".jsonl"), strict=True):
        one, many = tmp_path / f"one{ending}", tmp_path / f"many{ending}"
        assert samples(lake, one, *words, "--inexact", "skip", "--json") == Exit.OK
        here = capfd.readouterr()
        assert samples(lake, many, *words, *there, "--inexact", "skip", "--json") == Exit.OK
        assert capfd.readouterr() == here and "left out: trajectory" in here.err
        assert one.read_bytes() == many.read_bytes() and one.stat().st_size > 1000


@pytest.mark.slow
@needs_ray
def test_what_one_process_refuses_is_refused_there_in_the_same_words(
    lake: str, cluster: TwoNodes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    there = ("--on", "ray", "--ray-address", cluster.address)
    one, many = tmp_path / "one.samples", tmp_path / "many.samples"
    refused = ("--inexact", "refuse")
    assert samples(lake, one, *refused) == samples(lake, many, *refused, *there) == Exit.USAGE
    first, second = capfd.readouterr().err.splitlines()
    assert first == second and "(or skip what is inexact)" in first
    assert not one.exists() and not many.exists()


def test_no_cluster_or_no_ray_is_one_line(
    lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "x.samples"
    assert samples(lake, output, "--on", "spark") == Exit.USAGE
    assert "--on 'spark': give local or ray" in capsys.readouterr().err
    assert samples(lake, output, "--on", "ray", "--ray-address", "ray://head") == Exit.USAGE
    assert "auto or HOST:PORT" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "ray", None)
    assert samples(lake, output, "--on", "ray") == Exit.MISSING
    assert "pip install 'silva[ray]'" in capsys.readouterr().err and not output.exists()


@pytest.mark.slow
@needs_ray
def test_an_address_where_nobody_is_one_line(lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "x.samples"
    assert samples(lake, output, "--on", "ray", "--ray-address", "127.0.0.1:1") == Exit.UNREACHABLE
    assert "no Ray cluster lets us in at '127.0.0.1:1'" in capsys.readouterr().err and not output.exists()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=30), st.integers(1, 8))
def test_shares_keep_order_and_neighbours_of_a_tree_together(items: list[tuple[int, int]], count: int) -> None:
    items.sort()
    shares = cut(items, count, lambda item: tree_id("run", str(item[0])), lambda item: float(item[1]))
    assert [item for share in shares for item in share] == items
    assert all(shares) and len(shares) <= count
    homes = [{item[0] for item in share} for share in shares]
    assert sum(map(len, homes)) == len(set().union(*homes))
