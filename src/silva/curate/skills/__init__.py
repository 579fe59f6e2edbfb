"""Skills are distilled from contrasts, tried, and kept only where they help (Safactory, section 4.3.4).

    trajectories ─▶ siblings of one task with another outcome or another safety ─▶ Contrast
      ─▶ a writer (extraction, or a model) ─▶ candidates, one for all contrasts that say the same ─▶ bank
      ─▶ a paired trial with and without each ─▶ kept, or rejected and why ─▶ superseded, retired

The bank and the stage that gives skills to agents are in `silva.rollout.skills`.
"""

from silva.curate.skills.contrast import Contrast, contrasts
from silva.curate.skills.distilling import Distilled, distil
from silva.curate.skills.trying import TrialConfig, try_skills

__all__ = ["Contrast", "Distilled", "TrialConfig", "contrasts", "distil", "try_skills"]
