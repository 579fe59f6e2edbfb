import subprocess
import time
import urllib.error
import urllib.request

import pytest


@pytest.fixture(scope="module")
def server():
    process = subprocess.Popen(["python3", "/app/serve.py"])
    for _ in range(100):
        try:
            urllib.request.urlopen("http://127.0.0.1:8765/sum?a=0&b=0", timeout=5)
            break
        except OSError:
            time.sleep(0.1)
    yield "http://127.0.0.1:8765"
    process.kill()


def test_sum(server):
    assert urllib.request.urlopen(f"{server}/sum?a=19&b=23", timeout=5).read().strip() == b"42"


def test_else(server):
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{server}/other", timeout=5)
    assert caught.value.code == 404
