import subprocess


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)


def test_numbers():
    for number, numeral in ((1, "I"), (4, "IV"), (1994, "MCMXCIV"), (3999, "MMMCMXCIX")):
        assert run("python3", "/app/roman.py", str(number)).stdout.strip() == numeral


def test_others():
    for other in ("0", "4000", "x"):
        done = run("python3", "/app/roman.py", other)
        assert done.returncode != 0 and "can't open file" not in done.stderr
