import json
from pathlib import Path


def test_report():
    assert json.loads(Path("/app/report.json").read_text()) == {"north": 8, "south": 4, "west": 1}
