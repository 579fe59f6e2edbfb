"""Keeps checkpoints in a folder and says their ids, while another process removes what nobody needs."""

from __future__ import annotations

import sys
from pathlib import Path

from silva.sandbox.contents import Contents
from silva.sandbox.layers import PLACES, Layers


def main(kind: str, folder: Path, count: int) -> None:
    """Keep so many; each line of output is an id that must come back whole."""
    store = Layers(folder) if kind == "layers" else Contents(folder)
    for number in range(count):
        top = folder.parent / f"top-{number}"
        for place in PLACES:
            (top / place).mkdir(parents=True)
            for each in range(20):
                (top / place / str(each)).write_text(f"{number % 3} {each}")
        if isinstance(store, Layers):
            kept = store.adopt(top, str(number), (), "", copy=number % 2 == 0)
        else:
            kept = store.keep(top, str(number))
            store._seen.clear()  # as another process would: every file is looked at again
        sys.stdout.write(f"{kept.id}\n")
        sys.stdout.flush()


main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
