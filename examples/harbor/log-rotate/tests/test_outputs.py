import subprocess


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)


def test_rotation(tmp_path):
    log = tmp_path / "a.log"
    for text in ("one", "two", "three"):
        log.write_text(text)
        assert run("/app/rotate.sh", str(log)).returncode == 0
    assert (tmp_path / "a.log.1").read_text() == "three"
    assert (tmp_path / "a.log.2").read_text() == "two"
    assert log.read_text() == ""
