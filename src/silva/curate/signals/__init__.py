"""Signals: where a policy forgets, wavers, never goes or was blamed, read from what it did.

    runs, as they followed each other ─▶ attempts (walk, step) ─▶ readers, pure ─▶ Signal: kind, node, focus, evidence
                                                                                └▶ notes on the walks, in the lake

Readers are `forgetting`, `boundary`, `rare`, `blamed`, and those that packages bring by the entry point group
`silva.signals`. A reader sees the attempts alone and decides nothing: what is done where a signal points is for whoever
asked.
"""
