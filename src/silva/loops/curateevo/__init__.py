"""CurateEvo: the code that curates data evolves by what the policy that it trained fails at.

    raw (walks) ─▶ start: the first curation is judged
    epoch:  diagnose (failed walks ─▶ failed points) ─▶ effect (revisions, judged, kept or rolled back) ─▶ efficiency
    prove (first and last curation, retrained on unseen seeds, on `test`) ─▶ report

    judged: curation ─▶ sandbox ─▶ data ─▶ by the fixed recipe from the same base ─▶ dev ─▶ P, C, J   (judging,
    training)

A curation is judged once for each seed, by the digest of the data that it gives: a loop that was killed, or that comes
upon the same data by another source, trains nothing again.
"""
