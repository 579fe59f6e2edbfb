"""Defences, one file each: what keeps words of strangers from becoming actions, and what that costs.

    observation ─ Defence.show ─▶ as the model is shown it (marked, withheld, tools taken away)
    action      ─ Defence.refuse ─▶ the reason it is not taken | ""

`silva.redteam.defending` is the stage that has them work, behind the attack, in the order in which they are named. What
they withheld or refused is in the trajectory's record, so a verdict says who stopped an attack; what they cost is the
difference in tasks done, with and without, on the same tasks.
"""

from silva.redteam.defences.defence import Defence, Guarded

__all__ = ["Defence", "Guarded"]
