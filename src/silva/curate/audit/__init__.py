"""Audit: what is wrong with data, who says so, and how often they are wrong themselves.

    RUN | FILE | QUERY ─▶ Row … ─▶ checkers ─▶ Finding (node, span, risk, score, p) ─▶ thresholds over all together
    labelled corpora ─▶ calibrate ─▶ Card (recall, false alarms, licences) ──────────▲     └▶ verdicts, report, clean

Every verdict is *detected*, *not detected* or *not checked* with its reason; what was not checked never counts as safe.
"""
