"""Asking a sealed set: the one way by which something comes out.

question or approved program ─▶ ledger: spend ─▶ open the rows ─▶ answer or run ─▶ reply and statement ─▶ ledger
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import Any, NamedTuple

from silva.curate.sealed import operators, program
from silva.curate.sealed.container import Sealed
from silva.curate.sealed.gate import Shape, reply
from silva.curate.sealed.keys import Keys
from silva.curate.sealed.ledger import Entry, Ledger, held
from silva.curate.sealed.operators import Question
from silva.curate.sealed.statement import signed


class Answered(NamedTuple):
    """What comes out: the reply (of one size), its statement, and whether it holds a release."""

    reply: bytes
    statement: bytes
    released: bool


def ask(sealed: Sealed, question: Question, keys: Keys) -> Answered:
    """Answer a fixed question with differential privacy.

    Raises:
        UsageError: the policy or the budget does not allow it, or the key is another.
        StoreError: the set or its ledger is damaged.
    """
    question.checked(sealed.policy)
    with held(sealed) as ledger:
        rows = sealed.opened(keys)  # a wrong key must cost nothing; nothing of the rows has been looked at
        ledger.spend(question.digest, epsilon=question.epsilon)
        found = operators.answer(question, rows, sealed.policy)
        told = {"operator": question.what, "column": question.column, "where": dict(question.where)}
        about = {"gate": "differential privacy", "question": told, "epsilon": question.epsilon}
        return _out(sealed, ledger, question.digest, found, "", about, keys)


def run(sealed: Sealed, code: bytes, shape: Shape, keys: Keys) -> Answered:
    """Run a program that a person has approved.

    Raises:
        UsageError: nobody has, the budget does not allow it, or the key is another.
        StoreError: the set or its ledger is damaged.
    """
    shape.checked()
    digest = program.digest(code, shape, sealed)
    with held(sealed) as ledger:
        program.allowed(digest, sealed, ledger)
        rows = sealed.opened(keys)
        bits = shape.bits(sealed.policy)
        ledger.spend(digest, bits=bits)
        found, why = asyncio.run(program.run(code, shape, rows, sealed))
        told = {"sha256": hashlib.sha256(code).hexdigest(), "approved": digest}
        about = {"gate": f"shape, k={sealed.policy.k}", "program": told, "bits": bits}
        return _out(sealed, ledger, digest, found, why, about, keys)


def _out(
    sealed: Sealed,
    ledger: Ledger,
    question: str,
    found: dict[str, Any] | None,
    why: str,
    about: dict[str, Any],
    keys: Keys,
) -> Answered:
    said = reply(found, sealed.policy)
    kind = "refused" if found is None else "let_out"
    release = hashlib.sha256(said).hexdigest()
    ledger.write(Entry(kind=kind, question=question, at=time.time(), by=why, release=release))
    budget = {"epsilon_spent": ledger.epsilon, "bits_spent": ledger.bits}
    statement = signed(said, sealed.manifest.rows, {**about, "budget": budget}, keys)
    return Answered(said, statement, found is not None)
