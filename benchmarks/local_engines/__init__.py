"""The engines that could sample the bundled model, a file each: prompts of ids in, ids and log-probabilities out.

    Opened ─▶ child (the engine's own interpreter) ─▶ Sampler.sample(prompts, new) ─▶ seconds, ids, log-probabilities

Every engine reads the same ids, draws at temperature 1 from the whole vocabulary, may not end early and has to hand back
ids and log-probabilities: what a trainer needs. `environments` says which interpreter runs which.
"""
