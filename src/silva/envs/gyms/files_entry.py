"""Registers the files gym: `files` plays tasks of Silva's own, `files/PLACE` public ones (GTA, GAIA) or one's own."""

from __future__ import annotations

from silva.envs.gyms.bridge_name import folder_of
from silva.envs.protocol import EnvironmentEntry

PREFIX = "files/"

_REQUIREMENTS = (
    "bm25s==0.3.16",
    "lxml==6.1.3",
    "matplotlib==3.11.2",
    "numpy==2.4.6",
    "onnxruntime==1.32.0",
    "opencv-python-headless==5.0.0.93",
    "openpyxl==3.1.5",
    "pillow==13.0.0",
    "platformdirs==4.14.7",
    "pyclipper==1.4.0",
    "pypdf==7.1.0",
    "python-docx==1.2.0",
    "python-pptx==1.0.2",
    "pyyaml==6.0.3",
    "reportlab==5.1.0",
    "shapely==2.2.0",
    "six==1.17.0",
    "sympy==1.14.0",
    "typing_extensions==4.16.0",
)


def resolve(name: str) -> EnvironmentEntry | None:
    """The entry for `files/<folder>`, a folder with GTA's or GAIA's files; None for any other name.

    Raises:
        UsageError: there is no such folder.
    """
    folder = folder_of(name, PREFIX)
    if folder is None:
        return None
    return _entry(name, f"{name}={folder}", f"tasks on files of {name.removeprefix(PREFIX)}", None)


def _entry(name: str, attribute: str, summary: str, expert: float | None) -> EnvironmentEntry:
    return EnvironmentEntry(
        name=name,
        target=f"silva.envs.gyms.files.environment:{attribute}",
        summary=summary,
        requirements=_REQUIREMENTS,
        no_deps=("rapidocr-onnxruntime==1.4.4",),  # else it brings an OpenCV with windows, and tqdm
        licence="Apache-2.0 (packages: MIT, BSD, Apache-2.0)",
        source="Silva",
        splits=("test", "level1", "level2", "level3", "train"),
        expert=expert,
        null=None if expert is None else 0.0,
        sample=20,
        patience=120.0,  # the first picture that is read by OCR loads its models
    )


ENTRY = _entry("files", "Files", "72 tasks on tables, documents, slides, PDF and pictures, with 29 tools", 1.0)
