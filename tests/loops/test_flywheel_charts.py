"""What the loop's report draws."""

from __future__ import annotations

from itertools import pairwise

import pytest

from silva.loops.line.charts import training
from silva.train.curves import Point


@pytest.mark.parametrize("values", [(1.2e-7, -0.045, -0.0446), (-1e-9, 0.3, 0.7), (5.6, 2.0, 0.02), (-1.0, 0.5, 1.0)])
def test_the_marks_of_a_curve_leave_each_other_room(values: tuple[float, ...]) -> None:
    points = [Point(step=step, values={"loss": value}) for step, value in enumerate(values, start=1)]
    (plot,) = training("Round 2, grpo", points)
    places = sorted(mark.at for mark in plot.y_ticks)
    assert len(places) >= 2 and "0" in [mark.label for mark in plot.y_ticks]
    assert all(other - one >= 12 for one, other in pairwise(places)), "words stand on each other"
