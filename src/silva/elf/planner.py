"""What makes plans of intents: a protocol with two implementations and one checker behind both.

    intent, what there is ─▶ Planner.plan ─▶ Plan (perhaps with questions) ─▶ silva.elf.checking

`silva.elf.intent.offline` needs no model; `silva.elf.endpoint` asks any model. Neither is trusted.
"""

from __future__ import annotations

from typing import Protocol

from silva.elf.intent.known import Known
from silva.elf.plan import Plan


class Planner(Protocol):
    """Makes a plan of an intent."""

    name: str

    def plan(self, intent: str, known: Known) -> Plan:
        """The plan of an intent.

        Raises:
            UsageError: nothing can be planned; the line names what is not understood or missing.
        """
        ...
