"""What attacks came to, as a person looks at it: a plane, a map, and every found failure at its turns.

    trajectories of plans ─┬▶ points   completion against safety: a model in an environment, with intervals
                           ├▶ heat     surfaces × framings: success among the exposed; what was not measured is said
                           ├▶ failures each attempt in which a goal was reached, with the command that takes it again
                           └▶ marks    which turn of a walk was the exposure, which the effect
                                 └─────▶ page (one HTML file), and the console's page

Readers of records and walks; nothing here decides what a success is (`silva.redteam.verdict` does).
"""
