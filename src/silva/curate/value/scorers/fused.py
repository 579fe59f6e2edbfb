"""The default: the mean of the percentile ranks of IFD and DEITA's quality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from silva.curate.value.ranks import percentiles
from silva.curate.value.sample import Samples
from silva.curate.value.scorer import Floats, Need, Score, SetScorer, scorer


@scorer
class Fused(SetScorer):
    """In [0, 1], 0.5 in the middle. A sample that one part could not score has none: it is not ranked by the other
    alone."""

    name = "fused"
    summary = "mean percentile rank of ifd and deita_q: the default of the paper; needs DEITA's weights"
    need = Need.PAIR
    parts = ("ifd", "deita_q")

    def score(self, samples: Samples, parts: Mapping[str, Floats]) -> Sequence[Score]:
        ranks = {name: percentiles(parts[name]) for name in self.parts}
        mean = np.mean([ranks[name] for name in self.parts], axis=0)
        return [
            Score(float(value))
            if not np.isnan(value)
            else Score(None, f"no {' and no '.join(name for name in self.parts if np.isnan(ranks[name][place]))}")
            for place, value in enumerate(mean)
        ]
