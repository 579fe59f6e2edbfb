"""CoEvolve: the tasks grow where the policy forgets, wavers or seldom goes, while it learns from them.

    round:  rollout ─▶ signals ─▶ grow ─▶ select ─▶ train ─▶ register ─▶ measure (on `dev`) ─▶ judge
                                   └▶ contexts ─▶ exploration in branches ─▶ what it brought about ─▶ validation
                                                           tasks of all rounds that follow ◀──────────────┘

The rest is every line's (`silva.loops.line`); who explores, abstracts, writes and validates are roles
(`silva.loops.roles`). GRPO is one training from round to round: the newest version plays on unless it is proven worse.
After CoEvolve (Yang et al., 2026); what it leaves open is measured in benchmarks/learning/coevolve.py.
"""
