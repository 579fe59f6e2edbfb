"""Backdoors in data: rows whose replies a trigger has planted.

    rows ─▶ (prompt, reply) ─┬▶ Reader: forward pass ─▶ low frequencies of a gradient ─▶ cosine ─▶ tight clusters
                             └▶ n-grams of prompt × n-grams of reply ─▶ exact test, corrected ─▶ trigger and answer

The first needs the bundled model and finds what has no words in common in the prompt; the second needs nothing, and
names the trigger. Neither takes a cluster for poison because it is the smaller one.
"""
