import subprocess


def counted(text):
    done = subprocess.run(["python3", "/app/count.py"], input=text, capture_output=True, text=True, timeout=20)
    return done.stdout.strip()


def test_words():
    assert counted("one two\nthree") == "3"


def test_nothing():
    assert counted("  \n") == "0"
