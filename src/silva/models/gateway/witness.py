"""Who wrote what a client says, where somebody beside the gateway knows: it served the client what it now sends on.

    request ─▶ a message that is not on the tree yet ─ witness ─▶ its author and marks, and what stands beside it

Without a witness all that a client says is the environment's, for nobody here knows better.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from silva.tree import Author, Json, Message, Record


class Witnessed(Record, frozen=True, kw_only=True):
    """What is known of a message: who wrote it, what its node says besides, and, where it was written in another's
    place, the original with what is said of that; `link` is the attribute that holds the id of the original's node."""

    author: Author
    attributes: Json
    original: Message | None = None
    beside: Json = msgspec.field(default_factory=dict[str, Any])
    link: str = ""


Witness = Callable[[Message, str], Witnessed | None]
"""Asked about a message and the id of the turn before it; None where it knows nothing of it."""
