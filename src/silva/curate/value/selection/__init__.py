"""Choosing rows: copies out, clusters by what rows are about, quotas by their sizes, the best of each.

worth of each row, its vector ─▶ duplicates ─▶ clusters ─▶ quotas ─▶ Selection: what was kept, by what, and why not
"""
