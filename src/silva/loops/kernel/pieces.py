"""What a stage makes one by one: each piece is kept under what it was made of, and never made twice.

    key (a digest of source, task, pair, versions …) ─▶ kept already? ─▶ yes: as it was
                                                             └─▶ no: make ─▶ FOLDER/pieces/STAGE/KEY.json, durable

A stage that trains or judges many candidates is killed in the midst of them; begun again, it asks for the same pieces,
and only those are made that are not there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from silva.errors import StoreError
from silva.lake.durable import refusals, write_whole
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.tree import Json, digest


def once(loop: Loop[Any], stage: Stage, key: str, make: Callable[[], Json]) -> Json:
    """The piece of a stage with this key: as it is kept, or made now and kept.

    Args:
        loop: whose folder keeps it.
        stage: whose piece it is.
        key: what the piece is made of, beside the stage's inputs.
        make: makes it; what it gives is JSON.

    Raises:
        StoreError: the disk refused, or what is kept cannot be read.
    """
    file = loop.folder / "pieces" / stage.name / f"{digest(stage.inputs, key)}.json"
    try:
        return msgspec.json.decode(file.read_bytes())
    except FileNotFoundError:
        made = make()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"{file}: cannot be read ({error}); remove it, and go on") from error
    with refusals(f"loop {loop.folder}"):
        write_whole(file, msgspec.json.format(msgspec.json.encode(made)))
    return made
