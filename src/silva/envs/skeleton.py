"""A skeleton: the files of a small package that holds one working environment, for somebody to make theirs.

name ─▶ checked: a package nobody has yet ─▶ templates of `skeleton_files` ─▶ a folder beside, renamed into place whole
"""

from __future__ import annotations

import keyword
import re
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from silva.envs.registry import Registry
from silva.errors import UsageError

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST = 40

_PLACES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "AGENTS.md": "AGENTS.md",
    ".gitignore": "gitignore",
    "src/{package}/__init__.py": "",
    "src/{package}/entry.py": "entry.py",
    "src/{package}/environment.py": "environment.py",
    "tests/test_{package}.py": "test.py",
}
"""Where each file goes, and the template it is made of ("": an empty file)."""


def files(name: str) -> dict[str, str]:
    """The text of every file of a package for the environment `name`, by its path in the package's folder.

    Raises:
        UsageError: a name that no package or no new environment can have.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    package = _checked(name)
    made = Environment(
        loader=PackageLoader("silva.envs", "skeleton_files"), undefined=StrictUndefined, keep_trailing_newline=True
    )
    words = {"name": name, "package": package, "type": "".join(part.capitalize() for part in name.split("-"))}
    return {
        place.format(package=package): made.get_template(f"{template}.jinja").render(words) if template else ""
        for place, template in _PLACES.items()
    }


def write(name: str, folder: Path) -> Path:
    """Write the package into `folder/name`, whole or not at all; return that folder.

    Raises:
        UsageError: a bad name; something of that name is there already; the folder cannot be written.
    """
    texts, aim = files(name), free(name, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder))
        try:
            for place, text in texts.items():
                path = made / place
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            made.chmod(0o755)
            made.rename(aim)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    except OSError as error:
        raise UsageError(f"silva envs new: {aim} cannot be written: {error.strerror}") from error
    return aim


def free(name: str, folder: Path) -> Path:
    """Where the package would go.

    Raises:
        UsageError: something is there already.
    """
    aim = folder / name
    if aim.exists() or aim.is_symlink():
        raise UsageError(f"silva envs new: {aim} is there already; give another name, or --into another folder")
    return aim


def _checked(name: str) -> str:
    package = name.replace("-", "_")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise UsageError(
            f"silva envs new: {name!r} is no name: at most {_LONGEST} of a-z and 0-9, words joined by -, a letter first"
        )
    if keyword.iskeyword(package) or keyword.issoftkeyword(package) or package in sys.stdlib_module_names:
        raise UsageError(f"silva envs new: {name} is a word of Python's own; give another name")
    if any(entry.name == name for entry in Registry.load()):
        raise UsageError(f"silva envs new: there is an environment {name} already; give another name")
    if find_spec(package) is not None:
        raise UsageError(f"silva envs new: a package {package} is installed here already; give another name")
    return package
