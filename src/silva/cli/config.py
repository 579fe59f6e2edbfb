"""A command's configuration: one typed model, from a file and from words on the command line.

    YAML or TOML file ─▶ plain object ─▶ dotted overrides (`budget.turns=10`) ─▶ pydantic model ─▶ the command

A fault is one line with the file or override and the field. Unknown keys are refused with the closest known one.
Secrets have no place here: configurations are stored with runs. They are read from the environment.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from silva.errors import UsageError
from silva.redact import redact, redact_json

T = TypeVar("T", bound=BaseModel)

_SECRET_KEY = re.compile(
    r"(^|[_\-.])(api[_\-]?key|secret([_\-]?(access[_\-]?)?key)?|password|passwd|token|authorization|credentials?|private[_\-]?key)$",
    re.IGNORECASE,
)
_NAMES_VARIABLE = re.compile(r"[_\-](env|var|variable|file)$", re.IGNORECASE)


def load(model: type[T], path: Path | None, overrides: Sequence[str] = ()) -> T:
    """Read a configuration.

    Args:
        model: the pydantic model that says which keys there are.
        path: a `.yaml`, `.yml`, `.json` or `.toml` file; None for none.
        overrides: `a.b=value`, later ones win; the value is read as a YAML scalar or as JSON.

    Raises:
        UsageError: unreadable file, unknown key, wrong value, or a secret; one line with the file and the field.
    """
    values = {} if path is None else _file(path)
    where = path.name if path is not None else "config"
    _refuse_secrets(values, where)
    _refuse_unknown(model, values, where)
    overridden: dict[str, str] = {}
    for text in overrides:
        dotted, value = _override(text)
        nested: Any = value
        for key in reversed(dotted):
            nested = {key: nested}
        _refuse_secrets(nested, f"override {'.'.join(dotted)}")
        _refuse_unknown(model, nested, f"override {'.'.join(dotted)}")
        _set(values, dotted, value)
        overridden[".".join(dotted)] = text
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _invalid(error, where, overridden) from error


def of_values(model: type[T], values: dict[str, Any], where: str) -> T:
    """A configuration from plain values, held to the same as one from a file.

    Raises:
        UsageError: as `load`.
    """
    _refuse_secrets(values, where)
    _refuse_unknown(model, values, where)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _invalid(error, where, {}) from error


def render(config: BaseModel) -> str:
    """The whole configuration as YAML, defaults written out, anything that looks like a secret replaced."""
    values = redact_json(config.model_dump(mode="json"), names=True)
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=False)


def _file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(f"config {path}: no such file; give the path of a YAML or TOML file") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise UsageError(f"config {path}: cannot be read ({reason})") from error
    ending = path.suffix.lower()
    try:
        if ending == ".toml":
            values: Any = tomllib.loads(text)
        elif ending in (".yaml", ".yml", ".json"):
            values = _yaml(text)
        else:
            raise UsageError(f"config {path}: unknown kind of file {ending or '(no ending)'!r}; name it .yaml or .toml")
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"config {path.name}: not TOML ({error})") from error
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UsageError(f"config {path.name}{line}: not YAML ({error.problem})") from error
    except yaml.YAMLError as error:
        raise UsageError(f"config {path.name}: not YAML ({' '.join(str(error).split())})") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UsageError(f"config {path.name}: a configuration is an object of keys, this is {type(values).__name__}")
    return values


class _Loader(yaml.SafeLoader):
    """YAML that refuses a key written twice and reads `1e-4` as a number, as people expect of both."""


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
    seen: set[str] = set()
    for key, _ in node.value:
        if key.tag == "tag:yaml.org,2002:bool":  # a key is a word, `on` too
            key.tag = "tag:yaml.org,2002:str"
        if key.value in seen:
            raise yaml.MarkedYAMLError(problem=f"key {key.value!r} stands twice", problem_mark=key.start_mark)
        seen.add(key.value)
    return yaml.SafeLoader.construct_mapping(loader, node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9][0-9_]*(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _yaml(text: str) -> Any:
    return yaml.load(text, Loader=_Loader)


def _override(text: str) -> tuple[list[str], Any]:
    dotted, equals, raw = text.partition("=")
    keys = dotted.strip().split(".")
    if not equals or not all(keys):
        raise UsageError(f"override {redact(text)!r}: write it as key=value, for instance budget.turns=10")
    try:
        return keys, json.loads(raw)
    except json.JSONDecodeError:
        pass  # not JSON: most values are bare words
    try:
        return keys, _yaml(raw)
    except yaml.YAMLError:
        return keys, raw


def _set(values: dict[str, Any], dotted: list[str], value: Any) -> None:
    place = values
    for depth, key in enumerate(dotted[:-1], start=1):
        below = place.get(key)
        if isinstance(below, list):
            name = ".".join(dotted[:depth])
            raise UsageError(f"override {'.'.join(dotted)}: {name} is a list, which is given whole: {name}='[…]'")
        if not isinstance(below, dict):
            below = place[key] = {}
        place = below
    place[dotted[-1]] = value


def _refuse_secrets(values: Any, where: str, path: str = "") -> None:
    for key, value in values.items() if isinstance(values, dict) else enumerate(values):
        field = f"{path}.{key}" if path else str(key)
        if isinstance(value, dict | list):
            _refuse_secrets(value, where, field)
        elif isinstance(value, str) and value:
            named = isinstance(key, str) and _SECRET_KEY.search(key) and not _NAMES_VARIABLE.search(key)
            if named or redact(value) != value:
                raise UsageError(
                    f"{where}: {field}: a secret does not belong in a configuration (it is stored with the run); "
                    f"set it as an environment variable, such as {_variable(str(key))}"
                )


def _variable(key: str) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "_", key).upper().strip("_")
    return "OPENAI_API_KEY" if name in ("", "API_KEY", "APIKEY", "KEY", "TOKEN") else name


def _refuse_unknown(model: type[BaseModel], values: Any, where: str, path: str = "") -> None:
    if not isinstance(values, dict):
        return
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    for key, value in values.items():
        if key not in fields:
            if model.model_config.get("extra") == "allow":
                continue
            close = difflib.get_close_matches(str(key), list(fields), n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(fields))}"
            field = f"{path}.{key}" if path else str(key)
            raise UsageError(f"{where}: {field}: unknown key ({hint})")
        for below in _models(fields[key].annotation):
            _refuse_unknown(below, value, where, f"{path}.{key}" if path else str(key))
            break  # of a union the validator decides


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    options = [annotation, *(get_args(annotation) if _optional(annotation) else ())]
    found = [item for item in options if isinstance(item, type) and issubclass(item, BaseModel)]
    if len(found) == 1:
        yield found[0]


def _optional(annotation: Any) -> bool:
    return type(None) in get_args(annotation)


def _invalid(error: ValidationError, where: str, overridden: dict[str, str]) -> UsageError:
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    source = where
    for dotted in overridden:
        made_an_object = first["type"].endswith("_type") and dotted.startswith(f"{field}.")  # of what is none
        if field == dotted or field.startswith(f"{dotted}.") or made_an_object:
            source = f"override {dotted}"
    problem = " ".join(first["msg"].split()).removeprefix("Value error, ")
    problem = problem[:1].lower() + problem[1:]
    given = first.get("input")
    shown = "" if first["type"] == "missing" or isinstance(given, dict | list | BaseModel) else f", got {given!r}"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    place = f"{source}: {field}: " if field else f"{source}: "
    return UsageError(redact(f"{place}{problem}{shown}{more}"))
