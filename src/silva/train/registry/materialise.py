"""A version as a folder on this machine: written whole or not at all, and verified whenever it is asked for.

blobs (verified by their name) ─▶ a draft beside the folder ─▶ renamed ─▶ FOLDER/LINE-NUMBER
there already ─▶ every file's sha256 is compared; what is damaged is written again
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import platformdirs

from silva.errors import UsageError
from silva.train.registry.registry import Registry
from silva.train.registry.version import PolicyVersion
from silva.train.registry.weights import BUNDLED, WeightsFolder, base_folder


def materialise(registry: Registry, version: PolicyVersion, under: Path | None = None) -> Path:
    """A folder with a version's files, verified: `UNDER/LINE-NUMBER`.

    Args:
        registry: where its blobs are.
        version: an adapter, whole weights, or a base whose files were kept.
        under: the folder to put it in; the user's cache, by digest, when left out.

    Raises:
        UsageError: it is a base whose files are not in the lake, or the folder cannot be written.
        StoreError: a blob is gone or damaged.
    """
    if not version.files:
        raise UsageError(
            f"{version.name} is the base {version.base.label}, whose files are not in the lake: give its folder"
        )
    if under is None:
        target = Path(platformdirs.user_cache_dir("silva")) / "policies" / version.digest
    else:
        target = under / version.name
    if _holds(target, version):
        return target
    with drafted(target, replace=True) as draft:
        for file in version.files:
            (draft / file.name).write_bytes(registry.contents(file))
    return target


def base_of(registry: Registry, version: PolicyVersion, given: str = "") -> WeightsFolder:
    """The folder with the base of a version, verified by its digest.

    Args:
        registry: where the base's files are, if they were kept.
        version: any version of the line.
        given: the folder, or `local`; where it is left out, the lake's copy, else the bundled model if it is that.

    Raises:
        UsageError: it is another base, or nobody knows where it is.
        MissingError: the bundled weights are not installed.
    """
    base = version.base
    kept = registry.line(version.line).versions[0]
    if not given and kept.files:
        return WeightsFolder(materialise(registry, kept))
    if not given and not _is_bundled(base.name):
        raise UsageError(f"{version.name} grows from {base.label}, whose files are not in the lake: give --base FOLDER")
    folder = base_folder(given or BUNDLED)
    digest = folder.digest()
    if digest != base.digest:
        raise UsageError(f"{version.name} grows from {base.label}; {folder.path.name} holds other weights ({digest})")
    return folder


def _is_bundled(name: str) -> bool:
    from silva.models.local import MODEL

    return name == MODEL


@contextmanager
def drafted(target: Path, *, replace: bool = False) -> Iterator[Path]:
    """A folder to write into that becomes `target` at the end, or vanishes where something goes wrong.

    Raises:
        UsageError: `target` is there and not empty (unless it is to be replaced), or cannot be written.
    """
    if not replace and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target} is there already: give a folder that is not, or remove it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror or error}") from error
    try:
        yield draft
        draft.chmod(0o755)
        if target.is_dir() and (replace or not any(target.iterdir())):
            shutil.rmtree(target)
        draft.rename(target)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _holds(folder: Path, version: PolicyVersion) -> bool:
    """Whether a folder holds just the files of a version, undamaged."""
    if not folder.is_dir() or {file.name for file in folder.iterdir()} != {file.name for file in version.files}:
        return False
    return all(_sha256(folder / file.name) == file.blob for file in version.files)


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
