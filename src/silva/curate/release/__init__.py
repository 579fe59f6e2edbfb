"""Release: rows become a data set that others can load, check and cite.

    parts (train=SOURCE …) ─▶ rows ─▶ leak check between parts and against what is held out ─▶ refused, or
      ─▶ data/PART-N.parquet (Hugging Face's layout) · images/HASH.png · lance/PART.lance
      ─▶ README.md (data card) · charts · croissant.json (JSON-LD) · release.json (digests of all of it)

The folder appears whole or not at all. Each line of a table also carries the row it was made of, so that
`silva.curate.rows.read` gives back what was released, equal to the last digest.
"""

from silva.curate.release.config import ReleaseConfig
from silva.curate.release.releasing import Released, plan, release
from silva.curate.release.verifying import verify

__all__ = ["ReleaseConfig", "Released", "plan", "release", "verify"]
