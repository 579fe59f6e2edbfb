"""Hypothesis settings of this folder: few examples by default."""

import os

from hypothesis import settings

CHOSEN = os.environ.get("SILVA_HYPOTHESIS", "steady")
settings.register_profile("tree", settings.get_profile(CHOSEN), max_examples=1000 if CHOSEN == "search" else 20)
settings.load_profile("tree")
