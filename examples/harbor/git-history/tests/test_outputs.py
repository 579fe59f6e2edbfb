from pathlib import Path


def test_found():
    assert " ".join(Path("/app/found.txt").read_text().split()).lower() == "the blue heron"
