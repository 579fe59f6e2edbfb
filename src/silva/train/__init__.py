"""From trees to a better policy.

    walk ─▶ samples (exact ids, mask, logprobs) ─▶ score (advantages) ─▶ buffer (groups, staleness) ─▶ engine
                                                                                                     │
         gateway ◀─ publish: pause, drain, swap, resume ◀─ registry (policy versions in the lake) ◀──┘

A `Sample` is one stretch of context with what the policy sampled in it; it knows nothing of trees any more. An
algorithm is a loss over samples and, where it needs one, a rule that turns rewards into advantages: it knows no engine
and does no I/O. An engine holds weights and does four things: `forward_backward`, `optim_step`, `sample`,
`save_weights_for_sampler`. The buffer stands between those who grow and those who train and knows only groups, versions
and a bound. Torch is imported in `algorithms` and `engines` alone.
"""
