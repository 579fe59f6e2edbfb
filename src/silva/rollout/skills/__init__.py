"""Skills: what earlier runs taught, in short texts that an agent is given when a task is like those they came from.

    BANK/NAME/SKILL.md (Agent Skills' folder form) ─▶ Bank: a light index ─ retrieve(task) ─▶ a few skills
      ─▶ a message of author `memory` behind the opening (stage `skills`), or names to load on demand

The text is nobody's turn: it is never what the policy said, so no trainer puts loss on it.
"""

from silva.rollout.skills.bank import Bank
from silva.rollout.skills.retrieval import Found, Retrieval
from silva.rollout.skills.skill import Skill, Trial

__all__ = ["Bank", "Found", "Retrieval", "Skill", "Trial"]
