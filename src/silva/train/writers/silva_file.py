"""Silva's own file of samples: see silva.train.sample_file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from silva.train.sample import Sample
from silva.train.sample_file import write_samples
from silva.train.writers import Options


def write(path: Path, samples: Sequence[Sample], options: Options) -> int:
    """Write the samples whole; return how many."""
    return write_samples(path, samples, force=options.force)
