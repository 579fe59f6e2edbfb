import json
from pathlib import Path

import numpy


def test_line():
    x, y = numpy.array([0, 1, 2, 3]), numpy.array([1, 3, 5.1, 6.9])
    slope, intercept = numpy.polyfit(x, y, 1)
    said = json.loads(Path("/app/line.json").read_text())
    assert abs(said["slope"] - slope) < 1e-6 and abs(said["intercept"] - intercept) < 1e-6
