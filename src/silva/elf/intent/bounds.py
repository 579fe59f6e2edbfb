"""The bounds that an intent itself states: "within 5 minutes", "for at most $2"."""

from __future__ import annotations

import msgspec

from silva.elf.intent.framing import framed
from silva.elf.intent.known import Known
from silva.elf.plan import Budget


def bounded(intent: str, budget: Budget) -> Budget:
    """The budget, made smaller where the intent says so; it never makes one larger."""
    frame = framed(" ".join(intent.split())[:4000], Known(), 0.0)
    said = {"seconds": frame.seconds, "usd": frame.usd, "tokens": frame.tokens, "memory": frame.memory}
    return msgspec.structs.replace(
        budget, **{name: min(value, getattr(budget, name)) for name, value in said.items() if value}
    )
