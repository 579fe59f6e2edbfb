from pathlib import Path


def test_bad():
    assert Path("/app/bad.txt").read_text().split() == ["b.json", "c.json", "d.json"]
