"""What comes out of a sandbox, or is put in, as an archive: whatever it holds, files or one line."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path, PurePosixPath

import pytest

from silva.errors import UsageError
from silva.sandbox import archive
from silva.sandbox.archive import unpack


def made(*members: tuple[tarfile.TarInfo, bytes], end: bool = True) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as writing:
        for member, content in members:
            member.size = len(content)
            writing.addfile(member, io.BytesIO(content))
        length = out.tell()
    return io.BytesIO(out.getvalue() if end else out.getvalue()[:length])


def file(name: str, **more: object) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    for key, value in more.items():
        setattr(found, key, value)
    return found


BAD = {
    "up": (file("../up"), b"x"),
    "absolute": (file("/etc/x"), b"x"),
    "device": (file("d", type=tarfile.CHRTYPE, devmajor=1, devminor=5), b""),
    "pipe": (file("p", type=tarfile.FIFOTYPE), b""),
    "link out": (file("l", type=tarfile.SYMTYPE, linkname="../../etc/passwd"), b""),
    "absolute link": (file("l", type=tarfile.SYMTYPE, linkname="/etc/passwd"), b""),
    "hard link out": (file("h", type=tarfile.LNKTYPE, linkname="../x"), b""),
    "hard link to nothing": (file("h", type=tarfile.LNKTYPE, linkname="nowhere"), b""),
    "empty link": (file("l", type=tarfile.SYMTYPE, linkname=""), b""),
    "name too long": (file("n" * 300), b"x"),
    "path too long": (file("/".join(["d" * 200] * 30)), b"x"),
    "below a file": (file("good/below"), b"x"),
    "NUL": (file("a", pax_headers={"path": "a\0b"}), b"x"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_member_that_cannot_be_is_left_out_by_name_and_the_others_come(tmp_path: Path, name: str) -> None:
    stream = made((file("good"), b"1"), BAD[name], (file("more/last"), b"2"))
    found = unpack(stream, tmp_path / "out", 1 << 20)
    assert (tmp_path / "out" / "good").read_bytes() == b"1"
    assert (tmp_path / "out" / "more" / "last").read_bytes() == b"2"
    assert len(found.left_out) == 1 and "\n" not in found.left_out[0]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out"]


def test_what_lies_behind_a_link_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "aim").mkdir()
    stream = made(
        (file("in"), b""),
        (file("d", type=tarfile.SYMTYPE, linkname="e"), b""),
        (file("e", type=tarfile.SYMTYPE, linkname="../aim"), b""),
        (file("d/x"), b"x"),
    )
    found = unpack(stream, tmp_path / "out", 1 << 20)
    assert list((tmp_path / "aim").iterdir()) == [] and len(found.left_out) == 2


@pytest.mark.parametrize("at", [100, 600, 1100, 1536, 1700, 2047])
def test_one_that_is_cut_off_is_one_line_and_nothing_is_left(tmp_path: Path, at: int) -> None:
    whole = made((file("a"), b"1" * 512), (file("b"), b"2" * 512)).getvalue()
    with pytest.raises(UsageError, match="no whole archive"):
        unpack(io.BytesIO(whole[:at]), tmp_path / "out", 1 << 20)
    assert list(tmp_path.iterdir()) == []


def test_one_without_its_end_is_not_taken_for_whole(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cut off"):
        unpack(made((file("a"), b"1" * 512), end=False), tmp_path / "out", 1 << 20)


def test_bombs_are_refused_before_they_are_unpacked(tmp_path: Path) -> None:
    hole = tarfile.TarInfo("sparse")
    hole.size = 1 << 40
    for bomb in (
        io.BytesIO(hole.tobuf(tarfile.GNU_FORMAT)),
        made((file("a", pax_headers={"comment": "x" * (4 << 20)}), b"")),
        made(*((file(str(number)), b"0" * 1000) for number in range(200))),
    ):
        with pytest.raises(UsageError):
            unpack(bomb, tmp_path / "out", 100_000)
    assert list(tmp_path.iterdir()) == []


def test_a_time_that_no_file_system_has_is_no_error(tmp_path: Path) -> None:
    unpack(made((file("a", mtime=1e30), b"1"), (file("b", mtime=-1e30), b"1")), tmp_path / "out", 100)
    assert (tmp_path / "out" / "b").read_bytes() == b"1"


def test_a_file_that_becomes_shorter_while_it_is_put_in_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").write_bytes(b"x" * 100_000)
    plain = archive._plain

    def shrinks(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        (tmp_path / "log").write_bytes(b"x")
        return plain(member)

    monkeypatch.setattr(archive, "_plain", shrinks)
    with pytest.raises(UsageError, match="log cannot be read: it changed meanwhile"):
        archive.pack(tmp_path / "log", PurePosixPath("/workspace/log"))
