"""What data is worth: scores of single rows, and the choice of some of them.

rows ─▶ samples ─▶ scorers (each a file; its scores are kept) ─▶ scores ─▶ selection ─▶ rows, and why each is there
"""
