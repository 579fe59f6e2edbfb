"""What a dialect's readers take, as JSON Schema: made from the types they decode into, so that neither drifts.

types ─▶ Book (a component for each struct) ─▶ narrowed to what the readers take beyond types ─▶ Described ─▶ OpenAPI

What a schema cannot say (a tool that is chosen must be offered, names must differ, integers have 64 bits) stays with
the readers. Nothing here is used to read a request.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from silva.models.carried import EXTRA
from silva.models.gateway.dialects import images
from silva.models.gateway.dialects.reading import LONGEST_NAME, OURS_ELSEWHERE
from silva.models.gateway.dialects.schema import TYPES
from silva.tree import Json

NULL: Json = {"type": "null"}
TEXT: Json = {"type": "string"}
COUNT: Json = {"type": "integer", "minimum": 0}
OBJECT: Json = {"type": "object"}

NAME: Json = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME, "pattern": r"^[^\x00-\x1f\x7f]+$"}
LABEL: Json = {"type": "string", "maxLength": LONGEST_NAME, "pattern": r"^[^\x00-\x1f\x7f]*$"}

_BASE64 = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)"

DATA: Json = {"type": "string", "pattern": f"^{_BASE64}$"}
"""The bytes of a picture."""

MEDIA: Json = {"enum": [*images.TYPES, "image/jpg"]}

PICTURE: Json = {
    "type": "string",
    "description": "A data: URL that holds the picture; the gateway fetches nothing.",
    "pattern": f"^data:image/(?:png|jpe?g|gif|webp);base64,{_BASE64}$",
}

PARAMETERS: Json = {
    "type": "object",
    "description": "The JSON Schema of a tool's arguments; its outermost level is checked.",
    "properties": {
        "type": {"anyOf": [{"enum": list(TYPES)}, {"type": "array", "items": {"enum": list(TYPES)}, "minItems": 1}]},
        "properties": OBJECT,
        "required": {"type": "array", "items": TEXT},
    },
}


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """A dialect in the OpenAPI document: what may be asked, what is replied, and what both refer to."""

    request: Json
    reply: Json
    components: Json


class Book:
    """The components of one dialect, by the names of its structs without their underscores.

    Args:
        prefix: what stands before each name in the document.
        roots: the types the readers decode into.
    """

    def __init__(self, prefix: str, *roots: Any) -> None:
        self._prefix = prefix
        schemas, found = msgspec.json.schema_components(roots, ref_template="{name}")
        names = {name: _short(name) for name in found}
        self.roots: list[Json] = [self._written(schema, names) for schema in schemas]
        self.components: Json = {prefix + names[name]: self._written(schema, names) for name, schema in found.items()}

    def body(self, *needed: str, **fixed: Json) -> Json:
        """The whole body: its variant, in which nothing stands that is ours in another API."""
        variant = self.variant("Body", *needed, **fixed)
        variant["properties"] = dict.fromkeys(sorted(OURS_ELSEWHERE), NULL) | variant["properties"]
        return variant

    def ref(self, name: str) -> Json:
        """Where a component is found."""
        return {"$ref": f"#/components/schemas/{self._prefix}{name}"}

    def variant(self, name: str, /, *needed: str, **fixed: Json) -> Json:
        """One form that the component may have: some of its fields must be there and are not null, some are fixed."""
        base = self.components[self._prefix + name]
        properties: Json = base["properties"] | fixed
        for field in needed:
            properties[field] = _not_null(properties[field])
        required = [*base["required"], *(field for field in needed if field not in base["required"])]
        return {"type": "object", "properties": properties, "required": required}

    def add(self, name: str, *variants: Json) -> Json:
        """Put a component in, or another one in its place: an object of one of the given forms."""
        self.components[self._prefix + name] = variants[0] if len(variants) == 1 else {"anyOf": list(variants)}
        return self.ref(name)

    def _written(self, value: Any, names: dict[str, str]) -> Any:
        if isinstance(value, list):
            return [self._written(item, names) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        found: Json = {}
        for key, item in cast("Json", value).items():
            if key == "$ref":
                found |= self.ref(names[item])
            elif key == "pattern":
                found[key] = item.replace(r"\Z", "$")  # ECMA has the one, Python needs the other
            elif key == "properties":
                found[key] = {name: self._written(inner, names) for name, inner in item.items() if name != EXTRA}
            elif key != "title" and not (key == "default" and item is None):
                found[key] = self._written(item, names)
        return found


def optional(schema: Json) -> Json:
    """The schema, or null."""
    return {"anyOf": [schema, NULL]}


def either(*schemas: Json) -> Json:
    """One of the schemas."""
    return {"anyOf": list(schemas)}


def listed(schema: Json, least: int = 0) -> Json:
    """A list of what the schema says."""
    return {"type": "array", "items": schema} | ({"minItems": least} if least else {})


def const(*values: Any) -> Json:
    """One of the values."""
    return {"enum": list(values)}


def opened(**properties: Json) -> Json:
    """An object with these fields at least."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def _short(name: str) -> str:
    """A struct's name; one that several modules have comes with its module's."""
    parts = [part.strip("_") for part in name.split(".")]
    return "".join(part[:1].upper() + part[1:] for part in parts[-2:])


def _not_null(schema: Json) -> Json:
    kept = [one for one in schema.get("anyOf", ()) if one != NULL]
    if not kept:
        return schema
    return kept[0] if len(kept) == 1 else {"anyOf": kept}
