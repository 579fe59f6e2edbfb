"""Which actions are worth learning (APOLLO, section 3.4): symbolic rules and a model judge, each with a reason.

    run ─▶ walks ─┬▶ rules ──▶ mask ──┐
                  └▶ judge ──▶ keep or mask ─┴▶ Supervision on the node ─▶ `silva train samples` leaves its loss out
    people: verdicts of their own (they count before the judge's, the judge's before a rule's)

A rule only ever masks: what no rule names is kept by default. A judge says both, so that it can take back what a rule
was too strict about.
"""
