"""Local servers that several rollouts share: one server, over event loops, until the end; real ones."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from urllib.request import urlopen

import pytest

from silva.models import Request, Sampling, connect
from silva.models.connect import Options, serve_spec
from silva.models.local.server import Within
from silva.models.local.shared import Server, only_last, sharing, start_anew, started
from silva.models.tiny.folder import write_tiny
from silva.models.tiny.shape import Shape
from silva.rollout.conversations import expert_conversations
from silva.tree import user

pytestmark = pytest.mark.slow
pytest.importorskip("torch")
pytest.importorskip("tokenizers")


def tiny(folder: Path) -> Path:
    said = asyncio.run(expert_conversations("arithmetic", split="chain", limit=4))
    write_tiny(folder / "tiny", said, Shape(width=16, inner=16, layers=1, heads=1, key_heads=1))
    return folder / "tiny"


def test_a_server_is_shared_until_the_end_or_until_it_is_started_anew(tmp_path: Path) -> None:
    tiny(tmp_path)
    spec = f"local:{tmp_path / 'tiny'}"

    async def answered() -> str:
        async with connect(spec, threads=1) as model:
            await model.complete(Request(messages=(user("one"),)))
        served = await serve_spec(spec, threads=1)
        assert served.stop is None  # whoever asked for it does not stop it
        return served.endpoint.url

    def process() -> Server:
        return started(1, Options().rows, tmp_path / "tiny")[0]

    with sharing():
        one, first = asyncio.run(answered()), process()
        assert asyncio.run(answered()) == one and process() is first
        start_anew()
        last, second = asyncio.run(answered()), process()
        assert second is not first  # its port may be the first one's, which is free again
        assert second.running and not first.running
        shutil.copytree(tmp_path / "tiny", tmp_path / "other")
        other = started(1, Options().rows, tmp_path / "other")[0]
        assert process() is second and other.running
        only_last()
        assert second.running and not other.running
    for url in (one, last):
        with pytest.raises(OSError):
            urlopen(url, timeout=30)
    alone = asyncio.run(serve_spec(spec, threads=1))
    assert alone.stop is not None
    alone.stop()


def test_a_server_within_this_process_says_what_one_of_its_own_says_and_ends_with_the_sharing(tmp_path: Path) -> None:
    folder = tiny(tmp_path)

    async def said() -> list[str]:
        async with connect(f"local:{folder}", threads=1) as model:
            asked = [
                Request(messages=(user(word),), sampling=Sampling(seed=seed, max_tokens=12))
                for word in "ab"
                for seed in range(3)
            ]
            return [each.message.text for each in await asyncio.gather(*map(model.complete, asked))]

    alone = asyncio.run(said())
    with sharing(within=True):
        assert asyncio.run(said()) == alone
        server = started(1, Options().rows, folder)[0]
        assert isinstance(server, Within) and server.running
        assert asyncio.run(said()) == alone and started(1, Options().rows, folder)[0] is server
    assert not server.running
    with pytest.raises(OSError):
        urlopen(server.url, timeout=30)
