import subprocess


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)


def test_large():
    assert run("/app/sum", "3000000000", "3000000000").stdout.strip() == "6000000000"


def test_small():
    assert run("/app/sum", "1", "-2").stdout.strip() == "-1"
