"""What a request asks for that no server of ours does: refused by name, as it would change what the reply means."""

from __future__ import annotations

from collections.abc import Iterable

from silva.models.serving.exchange import Refusal

_ONE = ("n", "best_of", "repetition_penalty")
"""Fields whose neutral value is 1."""


def check_offered(request: object, fields: Iterable[str]) -> None:
    """See that fields which are not offered are left out or have their neutral value.

    Raises:
        Refusal: one has not.
    """
    for field in fields:
        value = getattr(request, field)
        if value and not (field in _ONE and value == 1) and value != {"type": "text"}:
            raise Refusal(400, f"{field} is not offered here: leave it out")
