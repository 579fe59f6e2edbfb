"""The token of one's own console, kept in a file: the same after a restart, nobody else's to read, refused by name."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from silva.cli.main import run as silva
from silva.console.serve import one_user
from silva.errors import UsageError


def test_the_token_is_drawn_once_and_taken_up_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    _, first = one_user(file)
    people, second = one_user(file)
    assert first == second and len(first) >= 16 and people.of(first) is not None
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert one_user()[1] != first


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        ("x" * 32, 0o644, "can be read by others: chmod 600 it"),
        ("short", 0o600, "holds no token"),
        ("a b" * 20, 0o600, "holds no token"),
        ("x" * 3000, 0o600, "holds no token"),
        (b"\xff" * 30, 0o600, "cannot be read"),
    ],
)
def test_a_file_that_is_no_token_is_refused_and_left_as_it_is(
    tmp_path: Path, content: str | bytes, mode: int, said: str
) -> None:
    file = tmp_path / "token"
    whole = content if isinstance(content, bytes) else content.encode()
    file.write_bytes(whole)
    file.chmod(mode)
    with pytest.raises(UsageError, match=said):
        one_user(file)
    assert file.read_bytes() == whole


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--token-file", "nowhere/token"], "nowhere/token cannot be written"),
        (["--token-file", "token", "--users", "users.yaml"], "--token-file is for you alone"),
    ],
)
def test_the_command_refuses_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    status = silva(["console", "--lake", "lake", *more])
    told = capsys.readouterr().err
    assert status and said in told and told.count("\n") == 1
