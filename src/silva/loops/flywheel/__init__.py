"""The flywheel: run, select, train, prove, promote, and round again.

    round:  rollout ─▶ select ─▶ train ─▶ register ─▶ measure (the candidate on `dev`) ─▶ judge

The rest is every line's (`silva.loops.line`). What a policy drew is trained on with log-probabilities computed anew by
the trainer (`select.logprobs: recomputed`): how requests met in a batch of the server changes the last bits of its
numbers, and must not change the weights.
"""
