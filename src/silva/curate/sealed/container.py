"""A sealed set: a folder whose rows only the key opens.

NAME/sealed.json   policy, columns, the owner's public key; signed, and bound to the rows
NAME/rows.bin      the rows, in chunks of XChaCha20-Poly1305 (libsodium's secretstream): cut, changed or put in
                   another order, it does not open
NAME/ledger.jsonl  what was asked, approved, spent and let out (see `ledger`)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from silva.curate.sealed.keys import Keys, sodium, verified
from silva.curate.sealed.policy import Policy
from silva.errors import StoreError, UsageError
from silva.lake.durable import make_folder, refusals, write_whole
from silva.tree import Record

MANIFEST, ROWS = "sealed.json", "rows.bin"
CHUNK = 1 << 20
_encode = msgspec.json.Encoder(order="deterministic").encode


class Manifest(Record, frozen=True, kw_only=True):
    """What everybody may know of a sealed set. `rows` is the sha256 of the encrypted rows."""

    name: str
    policy: Policy
    rows: str
    public: str
    sealed: int = 1


class Signed(Record, frozen=True, kw_only=True):
    """A manifest with the owner's signature (hex)."""

    manifest: Manifest
    signature: str


class Sealed:
    """An existing sealed set.

    Args:
        folder: where it is.

    Raises:
        StoreError: it is none, or was changed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            signed = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Signed)
        except OSError as error:
            raise StoreError(f"{folder}: is no sealed set ({error.strerror}: {MANIFEST})") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(f"{folder}: {MANIFEST} is damaged ({error})") from error
        self.manifest = signed.manifest
        if not verified(_encode(signed.manifest), _bytes(signed.signature), signed.manifest.public):
            raise StoreError(f"{folder}: {MANIFEST} was changed after it was signed")

    @property
    def policy(self) -> Policy:
        """What its owner allows."""
        return self.manifest.policy

    def opened(self, keys: Keys) -> bytes:
        """The rows, as JSON lines.

        Raises:
            UsageError: it is another key.
            StoreError: the rows are damaged.
        """
        if keys.public != self.manifest.public:
            raise UsageError(f"{self.folder}: this key does not open it; it was sealed with another")
        with refusals(str(self.folder)):
            data = (self.folder / ROWS).read_bytes()
        if hashlib.sha256(data).hexdigest() != self.manifest.rows:
            raise StoreError(f"{self.folder}: {ROWS} was changed or cut off; restore it from a copy")
        return _decrypted(data, keys.rows, self.folder)


def seal(folder: Path, rows: Iterable[dict[str, Any]], policy: Policy, keys: Keys) -> Manifest:
    """Write a sealed set.

    Args:
        folder: where; it must not exist yet.
        rows: flat objects.
        policy: what its owner allows.
        keys: the owner's.

    Raises:
        UsageError: there is one already, there are no rows, or a row does not keep to the policy's columns.
        StoreError: it cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: exists already; give another place")
    lines = [_line(number, row, policy) for number, row in enumerate(rows, 1)]
    if not lines:
        raise UsageError("there are no rows to seal")
    data = _encrypted(b"".join(lines), keys.rows)
    manifest = Manifest(name=folder.name, policy=policy, rows=hashlib.sha256(data).hexdigest(), public=keys.public)
    with refusals(str(folder)):
        make_folder(folder)
        write_whole(folder / ROWS, data)
        # As it will be read: 0 and 0.0 are one number and two texts.
        manifest = msgspec.json.decode(_encode(manifest), type=Manifest)
        signed = Signed(manifest=manifest, signature=keys.sign(_encode(manifest)).hex())
        write_whole(folder / MANIFEST, _encode(signed) + b"\n")
    return manifest


def _line(number: int, row: dict[str, Any], policy: Policy) -> bytes:
    for name, column in policy.columns.items():
        value = row.get(name)
        if value is None:
            continue
        fits = isinstance(value, str) if column.type == "category" else isinstance(value, int | float)
        if not fits or isinstance(value, bool):
            raise UsageError(f"row {number}: {name} is {type(value).__name__}, the policy says {column.type}")
    if policy.person and not isinstance(row.get(policy.person), str | int):
        raise UsageError(f"row {number}: has no {policy.person}, which the policy tells persons by")
    return _encode(row) + b"\n"


def _encrypted(data: bytes, key: bytes) -> bytes:
    library = sodium()
    state = library.crypto_secretstream_xchacha20poly1305_state()
    parts: list[bytes] = [library.crypto_secretstream_xchacha20poly1305_init_push(state, key)]
    for chunk, last in _chunks(data, CHUNK):
        tag = (
            library.crypto_secretstream_xchacha20poly1305_TAG_FINAL
            if last
            else library.crypto_secretstream_xchacha20poly1305_TAG_MESSAGE
        )
        parts.append(library.crypto_secretstream_xchacha20poly1305_push(state, chunk, None, tag))
    return b"".join(parts)


def _decrypted(data: bytes, key: bytes, folder: Path) -> bytes:
    library = sodium()
    state = library.crypto_secretstream_xchacha20poly1305_state()
    begin = library.crypto_secretstream_xchacha20poly1305_HEADERBYTES
    extra = library.crypto_secretstream_xchacha20poly1305_ABYTES
    found: list[bytes] = []
    tag = None
    try:
        library.crypto_secretstream_xchacha20poly1305_init_pull(state, data[:begin], key)
        for chunk, _ in _chunks(data[begin:], CHUNK + extra):
            part, tag = library.crypto_secretstream_xchacha20poly1305_pull(state, chunk, None)
            found.append(part)
    except Exception as error:  # the bindings raise their own kinds, of damage as of a wrong key
        raise StoreError(f"{folder}: {ROWS} does not open with this key, or is damaged") from error
    if tag != library.crypto_secretstream_xchacha20poly1305_TAG_FINAL:
        raise StoreError(f"{folder}: {ROWS} is cut off")
    return b"".join(found)


def _chunks(data: bytes, size: int) -> Sequence[tuple[bytes, bool]]:
    starts = range(0, max(1, len(data)), size)
    return [(data[start : start + size], start + size >= len(data)) for start in starts]


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
