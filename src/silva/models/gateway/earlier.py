"""The conversation that a request goes on from by a response's name (`previous_response_id`), and its pictures.

Asked(previous) ─▶ continued: the earlier messages in front ─▶ pictures: the bytes that only the lake has
"""

from __future__ import annotations

import msgspec

from silva.errors import StoreError
from silva.models.gateway.config import Limits
from silva.models.gateway.dialects.dialect import Asked
from silva.models.gateway.keeper import Keeper
from silva.models.gateway.problem import Problem
from silva.models.gateway.session import Session
from silva.tree import ImagePart

FIELD = "previous_response_id"
WHOLE = "send the conversation whole"


async def continued(asked: Asked, session: Session, keeper: Keeper) -> Asked:
    """The request with the conversation it goes on from in front.

    Raises:
        Problem: there is no such response.
    """
    earlier = session.conversation(asked.previous)
    if earlier is None and session.dropped(asked.previous):
        session.recall(await keeper.nodes(session.rollout.tree_id))
        earlier = session.conversation(asked.previous)
    if earlier is None:
        raise Problem("not_found", f"there is no response {asked.previous!r} in this rollout: {WHOLE}", FIELD)
    if asked.echo.get("instructions") and asked.messages[0].role == "system":
        # Instructions hold for one response; those of the earlier one give way to these.
        rest = earlier[1:] if earlier[0].role == "system" else earlier
        return msgspec.structs.replace(asked, messages=(asked.messages[0], *rest, *asked.messages[1:]))
    return msgspec.structs.replace(asked, messages=(*earlier, *asked.messages))


async def pictures(asked: Asked, keeper: Keeper, limits: Limits) -> dict[str, bytes]:
    """The bytes of the pictures in a conversation that the request itself did not bring, by their hashes.

    Raises:
        Problem: one is not in the lake, or together they are more than a request may have.
    """
    shown = (part.hash for message in asked.messages for part in message.parts if isinstance(part, ImagePart))
    most = int(limits.body_mb * 1024 * 1024)
    found: dict[str, bytes] = {}
    size = 0
    for name in dict.fromkeys(shown):
        if name in asked.images:
            continue
        try:
            found[name] = await keeper.blob(name)
        except StoreError as error:
            what = f"picture {name[:12]} of response {asked.previous!r} cannot be read ({error})"
            raise Problem("not_found", f"{what}: {WHOLE}", FIELD) from error
        size += len(found[name]) * 4 // 3  # as base64, which is how one body would have had to bring them
        if size > most:
            what = f"the pictures of the conversation are larger than {limits.body_mb:g} MB"
            raise Problem("too_large", f"{what}, which is what this gateway takes", FIELD)
    return found
