"""Local servers that several rollouts share: one process, over event loops, until the end; real processes."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from urllib.request import urlopen

import pytest

from silva.models import Request, connect
from silva.models.child import Child
from silva.models.connect import Options, serve_spec
from silva.models.local.shared import only_last, sharing, start_anew, started
from silva.models.tiny.folder import write_tiny
from silva.models.tiny.shape import Shape
from silva.rollout.conversations import expert_conversations
from silva.tree import user

pytestmark = pytest.mark.slow
pytest.importorskip("torch")
pytest.importorskip("tokenizers")


def test_a_server_is_shared_until_the_end_or_until_it_is_started_anew(tmp_path: Path) -> None:
    said = asyncio.run(expert_conversations("arithmetic", split="chain", limit=4))
    write_tiny(tmp_path / "tiny", said, Shape(width=16, inner=16, layers=1, heads=1, key_heads=1))
    spec = f"local:{tmp_path / 'tiny'}"

    async def answered() -> str:
        async with connect(spec, threads=1) as model:
            await model.complete(Request(messages=(user("one"),)))
        served = await serve_spec(spec, threads=1)
        assert served.stop is None  # whoever asked for it does not stop it
        return served.endpoint.url

    def process() -> Child:
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
