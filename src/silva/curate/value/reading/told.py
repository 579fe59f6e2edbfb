"""What every scorer that asks a model is told, and which model that is.

`local` ─▶ the bundled weights · `local:FOLDER` ─▶ a folder of the user's · http(s)://HOST/v1#NAME ─▶ an endpoint
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field

from silva.curate.value.scorer import Options
from silva.errors import UsageError

SPECS = "local, local:FOLDER or http(s)://HOST/v1#NAME"


class Asked(Options):
    """A model, and how it is asked.

    `model` is `local`, `local:FOLDER` or an endpoint. `version` stands beside an endpoint's address in what its scores
    are kept under: change it when other weights answer there. At most `tokens` of a sample are read, and that a sample
    was cut is told. `parallel` questions are put to an endpoint at once, each answered within `deadline` seconds.
    """

    model: str = "local"
    version: str = ""
    tokens: int = Field(default=1024, ge=16)
    parallel: int = Field(default=8, ge=1)
    deadline: float = Field(default=120.0, gt=0)


def is_endpoint(spec: str) -> bool:
    """Whether a model is asked over a network."""
    return spec.startswith(("http://", "https://", "openai:", "scripted:"))


def folder_of(spec: str) -> Path | None:
    """The folder of weights that a model names; None for the bundled ones.

    Raises:
        UsageError: it names neither weights nor an endpoint, or there is no such folder.
    """
    if spec == "local":
        return None
    kind, _, rest = spec.partition(":")
    if kind != "local" or not rest:
        raise UsageError(f"model {spec!r}: name {SPECS}")
    if not Path(rest).is_dir():
        raise UsageError(f"model {spec}: there is no such folder; name one with config.json in it")
    return Path(rest)


def identity_of(asked: Asked) -> str:
    """What tells the model from any other: the digest of its weights, or an endpoint's address, name and version.

    Raises:
        SilvaError: the weights are not there.
    """
    if is_endpoint(asked.model):
        parts = urlsplit(asked.model)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}#{parts.fragment} {asked.version}"
    from silva.models.local.weights import fingerprint

    return _remembered(folder_of(asked.model), fingerprint)


def _remembered(folder: Path | None, fingerprint: object) -> str:
    """A digest of weights, made anew where a file of theirs has changed: reading 270 MB takes longer than all else of
    a run whose scores are known."""
    import msgspec
    import platformdirs

    from silva.models.bundled import weights_folder
    from silva.models.local.checkpoint import weight_files
    from silva.tree import digest

    folder = folder or weights_folder()
    files = [*weight_files(folder), *(each for each in (folder / "tokenizer.json",) if each.is_file())]
    facts = [(each.name, (found := each.stat()).st_size, found.st_mtime_ns, found.st_ino) for each in files]
    known = Path(platformdirs.user_cache_dir("silva")) / "digests" / digest(msgspec.json.encode(facts))
    try:
        return known.read_text()
    except OSError:
        made = str(fingerprint(folder, folder.name))  # pyright: ignore[reportCallIssue]
    try:
        known.parent.mkdir(parents=True, exist_ok=True)
        known.write_text(made)
    except OSError:
        pass  # it is then made anew each time
    return made
