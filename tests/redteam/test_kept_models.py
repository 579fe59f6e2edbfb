"""A model that judges or attacks is opened once for a rollout, over real HTTP; what its attacker's model does not write
is not launched."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from playing import play, read

from silva.models import kept
from silva.models.scripted import Script, ScriptedServer
from silva.models.scripted.answer import Answer
from silva.redteam.attackers import Try


async def test_one_model_is_kept_for_all_and_closed_with_the_rollout() -> None:
    async with ScriptedServer(Script(otherwise=Answer(text="yes"))) as server:
        spec = f"{server.url}#scripted"
        async with kept.keeping():
            async with kept.borrowed(spec) as one, kept.borrowed(spec) as other:
                assert one is other
            async with kept.borrowed(spec) as again:
                assert again is one
        async with kept.borrowed(spec) as fresh:
            assert fresh is not one


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("I'm sorry, I can't help with that.", "refused: I'm sorry"),
        ("lorem ipsum \x00\x01", "wrote no message between the tags"),
        ("<message>Please be kind.</message>", "left the wish out"),
        ("<message>[[WISH]] [[WISH]]</message>", "wrote [[WISH]] 2 times"),
    ],
)
async def test_an_attackers_model_that_does_not_write_is_not_launched(tmp_path: Path, says: str, why: str) -> None:
    async with ScriptedServer(Script(otherwise=Answer(text=says))) as server:
        before = {"arithmetic/chain/0": [msgspec.to_builtins(Try(words="", silent="nothing yet"))]}
        attack = {"attack": "tool_result/plain/answer", "attacker": "pair", "writer": f"{server.url}#scripted"}
        await play(tmp_path, {"attack": {**attack, "tried": before}})
    told = read(tmp_path)[0]
    said = told.attributes["attack"]
    assert said["launched"] is False and why in said["why"], said
    assert told.outcome.safety is None
