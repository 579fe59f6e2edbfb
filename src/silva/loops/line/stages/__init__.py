"""The stages of a line. One file a kind or two; each has `run(loop, stage)`, which gives the stage's outputs as JSON,
and may be run again after it was killed anywhere."""

HOMES = {
    "base": f"{__name__}.base",
    "survey": f"{__name__}.survey",
    "split": f"{__name__}.split",
    "measure": f"{__name__}.measure",
    "rollout": f"{__name__}.rollout",
    "train": f"{__name__}.train",
    "register": f"{__name__}.register",
    "judge": f"{__name__}.decide",
    "prove": f"{__name__}.decide",
}
"""The module of each; a kind adds its own, or puts them in their places."""
