"""One machine of `s3_kills.py`: takes the lake when it can, acknowledges records on standard output, lets go, again."""

from __future__ import annotations

import json
import random
import sys
import time

from silva.errors import StoreError
from silva.lake import Lake, lease
from silva.lake import lake as opened
from silva.tree import Author, Node, assistant, node_id

URL, OPTIONS, NAME, MODE, SEED = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])
lease.SECONDS = 3.0
opened.SEAL_BYTES = 20_000


def node(number: int) -> Node:
    """A record nobody else makes."""
    message = assistant(f"{NAME} {SEED} {number} " + "x" * 200)
    return Node(
        id=node_id(NAME, None, Author.POLICY, message, None, "0.0"),
        run_id="kills",
        tree_id=NAME,
        parent_id=None,
        depth=0,
        author=Author.POLICY,
        message=message,
        slot="0.0",
    )


def taken() -> Lake:
    """The lake, once the other machine has let go of it or is known to be gone."""
    while True:
        try:
            return Lake.open(URL, storage_options=OPTIONS, window_ms=0)
        except StoreError as error:
            if "being written by" not in str(error):
                raise
            time.sleep(0.1)


def main() -> None:
    """Write until killed, or bring to the tables what is here."""
    draw, number = random.Random(f"{NAME} {SEED}"), 0
    while True:
        with taken() as lake:
            for _ in range(0 if MODE == "drain" else draw.randint(5, 60)):
                records = [node(number + each) for each in range(draw.randint(1, 5))]
                number += len(records)
                lake.append_sync(records)
                print(*(each.id for each in records), sep="\n", flush=True)
                time.sleep(draw.uniform(0.0, 0.02))
        if MODE == "drain":
            return
        time.sleep(draw.uniform(0.0, 0.3))


main()
