"""Usable, not visible: a data set that nobody sees, and that answers questions.

    rows ─▶ seal (key from the environment) ─▶ a folder ─▶ ask: fixed questions with differential privacy
                                                         └▶ run: a program that a person approved, behind a gate

One noun a file: `policy` what the owner allows · `keys` · `container` the encrypted rows · `ledger` what was spent ·
`operators` fixed questions · `program` approval and sandbox · `gate` what comes through · `statement` what is signed ·
`asking` the one way out.
"""

from silva.curate.sealed.asking import Answered, ask, run
from silva.curate.sealed.container import Sealed, seal
from silva.curate.sealed.gate import Field, Shape
from silva.curate.sealed.keys import Keys
from silva.curate.sealed.operators import Question
from silva.curate.sealed.policy import Policy

__all__ = ["Answered", "Field", "Keys", "Policy", "Question", "Sealed", "Shape", "ask", "run", "seal"]
