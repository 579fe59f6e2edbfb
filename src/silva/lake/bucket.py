"""A lake in an object store (S3 or what speaks it), through `obstore`, with the same options Lance takes.

What durable means here: an acknowledged record is on the disk of the machine that wrote it (the spool), and in the
bucket once its segment is compacted: when it holds 64 MB, or 4 MB and a few seconds have passed, on `compact()` and on
`close()`. A writer that died is picked up by the next writer on the same machine, whoever wrote meanwhile; if that disk
is lost, what was not yet compacted is lost with it, and `silva lake doctor` names the writer. Readers on other machines
see what is compacted. Blobs are in the bucket before `put_blob` returns.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from silva.errors import MissingError, StoreError
from silva.lake.spool import is_mark, spool

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
    from obstore.store import S3Store
except ImportError as error:
    raise MissingError("a lake on s3:// needs the package obstore: pip install 'silva[s3]'") from error


class Bucket:
    """A lake under `s3://bucket/prefix`. `options` are Lance's storage options (endpoint, allow_http, keys, region)."""

    def __init__(self, url: str, options: dict[str, str]) -> None:
        self.where = self.url = url.rstrip("/")
        self.journal = spool(url) / "journal"
        self.tables = f"{self.url}/tables"
        self.options = dict(options)
        with self._refusals():
            self._store = S3Store.from_url(
                self.url,
                config={key: value for key, value in options.items() if key.startswith("aws_")},  # pyright: ignore[reportArgumentType]
                client_options=_client(options),
                retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=30)},
            )

    def read(self, name: str) -> bytes | None:
        """The file's bytes, or None when there is none."""
        with self._refusals():
            try:
                return bytes(obstore.get(self._store, name).bytes())
            except FileNotFoundError:
                return None

    def write(self, name: str, data: bytes) -> None:
        """Write the file, replacing what was there; durable when the store has acknowledged it."""
        with self._refusals(writing=True):
            obstore.put(self._store, name, data)

    def exists(self, name: str) -> bool:
        """Whether the file is there."""
        with self._refusals():
            try:
                obstore.head(self._store, name)
            except FileNotFoundError:
                return False
            return True

    def names(self, prefix: str) -> list[str]:
        """Names of the files below `prefix`, sorted."""
        with self._refusals():
            return sorted(str(item["path"]) for page in obstore.list(self._store, prefix) for item in page)

    def empty(self) -> bool:
        """Whether nothing at all is here yet."""
        with self._refusals():
            return all(is_mark(str(item["path"])) for page in obstore.list(self._store) for item in page)

    def create(self, name: str, data: bytes) -> str | None:
        """Write the file if there is none; return its tag, or None when there is one."""
        with self._refusals(writing=True):
            try:
                return obstore.put(self._store, name, data, mode="create")["e_tag"]
            except AlreadyExistsError:
                return None

    def replace(self, name: str, data: bytes, tag: str) -> str | None:
        """Write the file if it still is the one of that tag; return its new tag, or None when it is not."""
        with self._refusals(writing=True):
            try:
                return obstore.put(self._store, name, data, mode={"e_tag": tag})["e_tag"]
            except PreconditionError:
                return None

    def tagged(self, name: str) -> tuple[bytes, str] | None:
        """The file's bytes and its tag, or None when there is none."""
        with self._refusals():
            try:
                got = obstore.get(self._store, name)
            except FileNotFoundError:
                return None
            return bytes(got.bytes()), got.meta["e_tag"] or ""

    def age(self, name: str, clock: str) -> float | None:
        """Seconds since the file was written, by the store's own clock (whole seconds), or None when there is none.
        `clock` is a file that is written to read that clock."""
        with self._refusals(writing=True):
            obstore.put(self._store, clock, b"")
            now = obstore.head(self._store, clock)["last_modified"]
        with self._refusals():
            try:
                return (now - obstore.head(self._store, name)["last_modified"]).total_seconds()
            except FileNotFoundError:
                return None

    def delete(self, name: str) -> None:
        """Remove the file, if there."""
        with self._refusals():
            try:
                obstore.delete(self._store, name)
            except FileNotFoundError:
                return

    @contextmanager
    def _refusals(self, writing: bool = False) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            # These three answer a question; only a write that finds no place to write to is refused by the first.
            expected = (AlreadyExistsError, PreconditionError, *(() if writing else (FileNotFoundError,)))
            if isinstance(error, expected):
                raise
            line = " ".join(str(error).split())[:200]
            raise StoreError(
                f"lake {self.where}: the object store refuses ({line}); check bucket, keys and endpoint"
            ) from error


def _client(options: dict[str, str]) -> Any:
    # Lance takes one flat list of options; obstore wants those of the connection apart from those of the store.
    client: dict[str, Any] = {"timeout": options.get("timeout", "30s")}
    if (options.get("allow_http") or os.environ.get("AWS_ALLOW_HTTP", "")).lower() in {"1", "true"}:
        client["allow_http"] = True
    return client
