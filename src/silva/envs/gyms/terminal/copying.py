"""What a COPY of a Dockerfile writes where."""

from __future__ import annotations

import posixpath

from silva.envs.gyms.terminal.harbor import HarborFile


def chosen(files: dict[str, HarborFile], sources: tuple[str, ...], target: str) -> dict[str, HarborFile]:
    """What COPY of `sources` to `target` writes: files by their path in the image. With a slash, it is a folder."""
    found: dict[str, HarborFile] = {}
    for source in sources:
        path = posixpath.normpath(source).lstrip("/")
        if path in files:
            found[target + path.rsplit("/", 1)[-1] if target.endswith("/") else target] = files[path]
            continue
        prefix = "" if path == "." else f"{path}/"
        for name, file in files.items():
            if name.startswith(prefix):
                found[posixpath.join(target, name[len(prefix) :])] = file
    return found
