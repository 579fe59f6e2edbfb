"""Attackers: who chooses the next words, one file each, behind one small protocol.

    Brief (task, order, where) + what was tried ─ Attacker.propose ─ Writer (a model, or the grammar) ─▶ Proposal
                    ▲                                                                                      │
                    └──── Try (launched, exposed, acted, reached, what the target did) ◀── the attempt ◀───┘

An attacker keeps nothing: all it goes by is what was tried, so a search that was cut off goes on where it was, and an
attacker serves wherever words are said and answered: attempt after attempt (best-of-n, PAIR, TAP, a genetic search,
branches from one decision), or turn after turn of one conversation (Crescendo, GOAT). A writer that refuses, repeats
itself or writes what does not hold the wish raises `NotWritten`: what was not written was not launched.

All of this is authorised evaluation of agents in environments of one's own; a model that writes is told so.
"""

from silva.redteam.attackers.attacker import Attacker, Brief, Proposal
from silva.redteam.attackers.writer import NotWritten, Try, Wish, Writer

__all__ = ["Attacker", "Brief", "NotWritten", "Proposal", "Try", "Wish", "Writer"]
