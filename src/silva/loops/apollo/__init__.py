"""APOLLO: agents that people guide, and learning from the actions worth it (its paper's sections 3 and 4).

    base ─▶ survey ─▶ split ─▶ measure (the base on `dev`)
    round:  rollout, guided ─▶ mask ─▶ select (rows) ─▶ train ─▶ register ─▶ measure ─▶ judge
    prove (base and head on `test`) ─▶ report

The loop grows a line (`silva.loops.line`). People, or a scripted person, speak to the agents while they play; rules and
perhaps a model judge mask what is not worth learning; what is trained on are rows of kept actions and of summaries. The
paper's ablations are switches: `guidance: false` and `masking: false`.
"""
