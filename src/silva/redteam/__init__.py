"""Red team: any attack on any environment, as stages of a turn, with proof that the model saw it.

An attack is three things that are chosen apart: **where** it stands (a surface), **how** it is put (a framing), and
**what for** (a goal). All three are tables; none knows an environment. A perturbation is the same without ill will.

    goal ─ what the episode offers (tools, a canary) ─▶ Order ─ framing ─▶ words ─ surface ─▶ Observation as it is shown
      └─▶ Effect ─────────────────── the walk, what the model was shown ──────────────▶ Verdict ◀──┘

    Order    what the attacker wants done, with a canary that nobody else would say
    Effect   how that is known to have happened: a call with these arguments, a secret in a sink; never a wording alone
    Verdict  launched, exposed (at which turn the model was shown it), acted on, reached, who stopped it

How one turn flows: `Attacking.on_observation` rewrites what the environment said; what it really said stays beside it
on the tree, and the rewritten node has the author *attacker*. When the record is written, `verdict` reads the walk: a
turn is *exposed* where the attack's words are in what the model was shown at that turn (summaries and defences may have
taken them away); only actions from there on can be *reached*. So a resumed episode and one that was not cut off have
one answer.
What was not exposed is never counted as resisted, and what a surface had no room for is told as that.

A package adds its own by entry points of the group `silva.redteam` that name a `Surface`, `Framing`, `Goal` or
`Perturbation`.
"""

from silva.redteam.attack import Attack
from silva.redteam.effect import Effect, Order
from silva.redteam.framing import Framing
from silva.redteam.goal import Goal, Offer
from silva.redteam.perturbation import Perturbation
from silva.redteam.surface import Surface
from silva.redteam.verdict import Verdict, verdict

__all__ = ["Attack", "Effect", "Framing", "Goal", "Offer", "Order", "Perturbation", "Surface", "Verdict", "verdict"]
