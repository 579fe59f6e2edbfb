"""Readers of trees: what happened becomes what is worth learning.

    lake ─▶ walks ─▶ turns ─┬▶ mask: which actions carry loss, and why
                            └▶ agreement: how far rules, models and people say the same

What a reader thinks of a node is appended as `Supervision`; nothing that was grown is changed. The rooms that train
read it (`silva.tree.supervision`).
"""
