"""Search finds what people do before why it was built so: decisions and the Python reference come last."""

from __future__ import annotations

from typing import Any

BEHIND = {"decisions/": 0.2, "reference/api/": 0.2, "reference/benchmarks": 0.5, "reference/learning": 0.5}
"""What a page's score is multiplied with, by how its path begins; a page that names a boost of its own keeps it."""


def on_page_markdown(markdown: str, /, page: Any, config: Any, files: Any) -> str:
    """Give the page its boost (called by MkDocs for every page)."""
    for beginning, boost in BEHIND.items():
        if page.file.src_uri.startswith(beginning):
            page.meta.setdefault("search", {"boost": boost})
    return markdown
