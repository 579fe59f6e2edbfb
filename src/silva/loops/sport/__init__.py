"""SPORT: the policy tries several steps at every turn, a verifier prefers one, and the policy learns what it prefers.

    round:  (synthesise) ─▶ search ─▶ pairs ─▶ check ─▶ select ─▶ train ─▶ register ─▶ measure ─▶ judge
                              ▲                                      from SFT, on all pairs so far
                              └──────────────── the newest version plays the next round ────────┘

No expert acts in a round and no person labels: tasks are made, candidates are carried out, and a verifier says which is
best (Iterative Trajectory Exploration for Multimodal Agents, "SPORT", 2025, arXiv 2504.21561). Rounds of the expert may
come first: they are the SFT that every round of preferences begins from. The rest is every line's (`silva.loops.line`).

config     what it is asked to do          lineup   which version plays, and which training begins from
stages/    what is SPORT's own             grades   how often the verifier was right
"""
