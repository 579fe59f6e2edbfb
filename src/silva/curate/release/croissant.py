"""Croissant 1.0: what the data set holds, as JSON-LD for search engines and ML tools (mlcommons.org/croissant)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from silva.curate.release.config import ReleaseConfig
from silva.curate.release.table import MEANING, SCHEMA
from silva.tree import Json

_TERMS = """
    citeAs column equivalentProperty extract field fileProperty fileObject fileSet format includes isLiveDataset
    jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate separator source
    subField transform
"""
CONTEXT: Json = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
    **{term: f"cr:{term}" for term in _TERMS.split()},
}
"""The words of Croissant 1.0, as its specification has them."""


def croissant(config: ReleaseConfig, files: Mapping[str, Sequence[tuple[str, str]]], published: str) -> Json:
    """The description of a release.

    Args:
        config: the release.
        files: of each part its Parquet files, with the sha256 of each.
        published: the day, as `YYYY-MM-DD`.
    """
    distribution = [
        {
            "@type": "cr:FileObject",
            "@id": path,
            "name": path,
            "contentUrl": path,
            "encodingFormat": "application/x-parquet",
            "sha256": sha256,
        }
        for of_part in files.values()
        for path, sha256 in of_part
    ]
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": config.name,
        "description": config.description or f"{config.name}: rows of agents and conversations, released with Silva.",
        "license": config.licence,
        "version": config.version,
        "datePublished": published,
        "creator": [{"@type": "sc:Person", "name": each} for each in config.creators],
        "inLanguage": list(config.language),
        **({"citeAs": config.citation} if config.citation else {}),
        "distribution": distribution,
        "recordSet": [_records(part, path) for part, of_part in files.items() for path, _ in of_part],
    }


def _records(part: str, path: str) -> Json:
    return {
        "@type": "cr:RecordSet",
        "@id": f"records/{path}",
        "name": path,
        "description": f"Rows of the part {part}.",
        "field": [_field(f"records/{path}/{column.name}", path, column) for column in SCHEMA],
    }


def _field(place: str, path: str, column: Any) -> Json:
    found: Json = {
        "@type": "cr:Field",
        "@id": place,
        "name": column.name,
        "description": MEANING[column.name],
    }
    source: Json = {"fileObject": {"@id": path}, "extract": {"column": column.name}}
    inner = column.type.value_type if pa.types.is_list(column.type) else column.type
    found |= {"repeated": True} if pa.types.is_list(column.type) else {}
    if not pa.types.is_struct(inner):
        return found | {"dataType": _type(inner), "source": source}
    parts = [each for each in inner if not pa.types.is_nested(each.type)]
    return found | {
        "subField": [
            {
                "@type": "cr:Field",
                "@id": f"{place}/{each.name}",
                "name": each.name,
                "dataType": _type(each.type),
                "source": source | {"transform": {"jsonPath": each.name}},
            }
            for each in parts
        ]
    }


def _type(kind: Any) -> str:
    if pa.types.is_floating(kind):
        return "sc:Float"
    if pa.types.is_integer(kind):
        return "sc:Integer"
    return "sc:Boolean" if pa.types.is_boolean(kind) else "sc:Text"
