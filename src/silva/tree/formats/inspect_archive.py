"""The zip of JSON members that an `.eval` log is, read within limits and written alike on every machine.

    bytes ─▶ Archive ─▶ json(member)          members ─▶ packed ─▶ bytes

Members are stored, deflated or compressed with Zstandard, which Inspect writes and Python 3.11's zipfile does not know.
Whatever a file claims, no more than the limits is unpacked.
"""

from __future__ import annotations

import importlib
import io
import json
import zipfile
import zlib
from collections.abc import Iterable
from typing import Any

from silva.tree.formats.errors import FormatError
from silva.tree.formats.rows import parsed

MOST_MEMBER = 512 * 2**20
"""Most bytes of one member, unpacked."""
MOST_TOTAL = 8 * 2**30
"""Most bytes of all members together, unpacked."""
MOST_MEMBERS = 200_000

_ZSTANDARD = 93
_LOCAL_HEADER = 30
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


class Archive:
    """An `.eval` file.

    Raises:
        FormatError: no zip file, or one of more members or bytes than the limits.
    """

    def __init__(self, data: bytes, name: str) -> None:
        self._data, self._name = data, name
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
            raise FormatError(name, 0, "", f"not a zip file ({error})") from error
        # A member written again follows the one it replaces: the last of a name counts.
        self._members = {info.filename: info for info in self._zip.infolist()}
        if len(self._members) > MOST_MEMBERS:
            raise FormatError(name, 0, "", f"has {len(self._members)} members, more than {MOST_MEMBERS}")
        total = sum(info.file_size for info in self._members.values())
        if total > MOST_TOTAL:
            raise FormatError(name, 0, "", f"unpacks to {total} bytes, more than {MOST_TOTAL}")

    def __contains__(self, member: str) -> bool:
        return member in self._members

    @property
    def members(self) -> list[str]:
        """The names of its members, in order."""
        return list(self._members)

    def json(self, member: str) -> Any:
        """The JSON value of a member.

        Raises:
            FormatError: it is too large, damaged, encrypted or not JSON.
        """
        info = self._members[member]
        if info.file_size > MOST_MEMBER:
            raise FormatError(self._name, 0, member, f"unpacks to {info.file_size} bytes, more than {MOST_MEMBER}")
        try:
            text = self._zstandard(info) if info.compress_type == _ZSTANDARD else self._plain(info)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError) as error:
            raise FormatError(self._name, 0, member, f"is damaged ({error})") from error
        except (RuntimeError, NotImplementedError) as error:
            raise FormatError(self._name, 0, member, f"cannot be unpacked ({error})") from error
        try:
            return parsed(text, self._name, 0)
        except FormatError as error:
            raise FormatError(self._name, 0, member, error.problem) from error

    def _plain(self, info: zipfile.ZipInfo) -> bytes:
        with self._zip.open(info) as member:
            text = member.read(info.file_size + 1)
        if len(text) != info.file_size:
            raise ValueError("its size is another than the file says")
        return text

    def _zstandard(self, info: zipfile.ZipInfo) -> bytes:
        if info.flag_bits & 1:
            raise RuntimeError("it is encrypted")
        header = self._data[info.header_offset : info.header_offset + _LOCAL_HEADER]
        if header[:4] != b"PK\x03\x04" or len(header) < _LOCAL_HEADER:
            raise ValueError("its header is not where the directory says")
        begin = info.header_offset + _LOCAL_HEADER
        begin += int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        packed_bytes = self._data[begin : begin + info.compress_size]
        arrow: Any = importlib.import_module("pyarrow")
        text = bytes(arrow.decompress(packed_bytes, info.file_size, codec="zstd", asbytes=True))
        if len(text) != info.file_size or zlib.crc32(text) != info.CRC:
            raise ValueError("its checksum is another than the file says")
        return text


def packed(members: Iterable[tuple[str, Any]]) -> bytes:
    """A zip of the members, deflated; the same members give the same bytes."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, value in members:
            info = zipfile.ZipInfo(member, _LONG_AGO)
            info.compress_type = zipfile.ZIP_DEFLATED
            # Inspect itself writes NaN for a sample that no scorer could mark.
            text = json.dumps(value, ensure_ascii=False)
            archive.writestr(info, text.encode("utf-8"))
    return whole.getvalue()
