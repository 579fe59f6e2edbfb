"""The safety loop: attack, find, repair, train, and attack again with what no training saw.

    round:  attack ─▶ explore ─▶ select ─▶ train ─▶ register ─▶ measure ─▶ guard (held-out attacks) ─▶ judge

A candidate is promoted where it is safer under attacks that were held out, by an interval above 0, and no less useful.
The rest is every line's (`silva.loops.line`).
"""
