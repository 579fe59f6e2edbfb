"""The data card: what a person should know before they use the data, with the front matter that Hugging Face reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import yaml

from silva import __version__
from silva.curate.release.config import ReleaseConfig
from silva.curate.release.counts import Counts
from silva.curate.release.table import MEANING
from silva.tree import Json

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def card(
    config: ReleaseConfig,
    counts: Counts,
    files: Mapping[str, Sequence[tuple[str, str]]],
    audit: Json | None,
    lineage: str,
    notes: Sequence[str],
) -> str:
    """The text of the release's README.md.

    Args:
        config: the release.
        counts: what it holds.
        files: of each part its Parquet files.
        audit: what `silva audit --json` said of it; None for none.
        lineage: the digest of all rows.
        notes: what was left out while it was made.
    """
    rows = sum(counts.parts.values())
    front: Json = {
        "pretty_name": config.name,
        "license": config.licence.lower(),
        "language": list(config.language),
        "size_categories": [next((name for most, name in _SIZES if rows < most), "1M<n<10M")],
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": part, "path": f"data/{part}-*.parquet"} for part in files if files[part]],
            }
        ],
    }
    return _template().render(
        front=yaml.safe_dump(front, sort_keys=False, allow_unicode=True).strip(),
        config=config,
        counts=counts,
        rows=rows,
        columns=MEANING,
        first=next(path for of_part in files.values() for path, _ in of_part),
        audit=audit,
        lineage=lineage,
        limits=[*config.limits, *_found(counts, audit)],
        notes=notes,
        version=__version__,
    )


def _found(counts: Counts, audit: Json | None) -> list[str]:
    """Limits that follow from the counts."""
    found: list[str] = []
    unchecked = counts.safety.get("not checked", 0)
    if unchecked:
        found.append(f"{unchecked:,} rows were looked at by no checker; nothing is known of their safety.")
    if audit is None:
        found.append("No audit came with this release.")
    unjudged = sum(number for name, number in counts.capability.items() if name.endswith("not judged"))
    if unjudged:
        found.append(f"Of {unjudged:,} rows nobody judged whether the task was done.")
    if len(counts.envs) == 1:
        found.append(f"All agents' runs are from one environment, {next(iter(counts.envs))}.")
    return found


@cache
def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("silva.curate.release", "templates")
    environment = Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["cell"] = lambda text: " ".join(str(text).replace("|", "\\|").split())
    return environment.get_template("card.md")
