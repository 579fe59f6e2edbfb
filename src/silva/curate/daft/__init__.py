"""Work on a Lance table in parts, by several processes or on Ray: the columns that are worth it, computed by Daft.

    Lance table ─▶ parts ─▶ Work (a class that is made once a worker, and called with some rows at a time) ─▶ one column

What needs all rows at once (ranks, quotas) stays with who asked, who is given small columns alone. Daft is an extra
(`silva[daft]`) and imported in `frame` only.
"""
