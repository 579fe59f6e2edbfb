"""A tool: a typed Python function, and the card that its signature makes.

    @tool(READ, asks=("deduplicate", …))
    def deduplicate(rows: Rows, near: Annotated[bool, Meta(description="…")] = False) -> Rows:
        \"""Drop rows that say the same.\"""

    signature ─▶ Card: name, summary, inputs (artefacts), settings (JSON schema), output, permissions, cost, version
                   └─▶ OpenAI's function schema, for planners that are models

A parameter whose type is an artefact is an input; one of type `Work` is what the runner lends (the lake, a folder, a
meter); every other one is a setting. A signature that says none of its types is refused when the tool is made.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from silva.elf.artefact import Artefact
from silva.elf.work import Work
from silva.errors import UsageError
from silva.tree import Json, Record, digest


class Permission(StrEnum):
    """What a tool may do beyond computing on its inputs and writing into its job's own folder."""

    READ = "read"  # a lake, or a file that is named
    WRITE = "write"  # a lake: add runs, judgements
    NET = "net"  # hosts that it names
    MODEL = "model"  # ask the model that the job was given


class Determinism(StrEnum):
    """Whether a result may be used again."""

    PURE = "pure"  # the same inputs and settings give the same result: kept over jobs
    OUTSIDE = "outside"  # it depends on a lake, a file, a host or a model: kept within its job only


class Cost(Record, frozen=True, kw_only=True):
    """What a call may take at most, as far as it is known before: seconds, and tokens and US dollars of a model.
    `row_*` are for each row of its inputs."""

    seconds: float = 0.5
    row_seconds: float = 0.0
    tokens: int = 0
    row_tokens: int = 0
    usd: float = 0.0


class Input(Record, frozen=True, kw_only=True):
    """An artefact that a tool takes: its type's word; several of them where `many`."""

    kind: str
    many: bool = False
    optional: bool = False


class Card(Record, frozen=True, kw_only=True):
    """What is known of a tool without running it. `settings` is a JSON schema by name, `required` those that must be
    given; `asks` are the words by which people ask for it; `code` is the digest of what it runs; `missing` says why it
    cannot run here."""

    name: str
    summary: str
    inputs: dict[str, Input] = msgspec.field(default_factory=dict[str, Input])
    settings: dict[str, Json] = msgspec.field(default_factory=dict[str, Json])
    required: tuple[str, ...] = ()
    output: str
    permissions: tuple[Permission, ...] = ()
    determinism: Determinism = Determinism.PURE
    cost: Cost = Cost()
    version: int = 1
    code: str = ""
    asks: tuple[str, ...] = ()
    origin: str = "silva"
    missing: str = ""

    @property
    def schema(self) -> Json:
        """The tool as OpenAI's function schema: inputs are names of earlier steps."""
        properties: Json = {
            name: {"type": "array", "items": {"type": "string"}, "description": f"steps that give {each.kind}"}
            if each.many
            else {"type": "string", "description": f"the step that gives {each.kind}"}
            for name, each in self.inputs.items()
        }
        properties |= self.settings
        needed = [*(name for name, each in self.inputs.items() if not each.optional), *self.required]
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": f"{self.summary} Gives {self.output}.",
                "parameters": {
                    "type": "object",
                    "properties": properties,
                    "required": needed,
                    "additionalProperties": False,
                },
            },
        }


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that can be called. `types` are the annotations of its settings, by which they are checked; `examples` are
    settings and inputs that `silva elf tool test` tries besides those it makes itself."""

    card: Card
    call: Callable[..., Artefact]
    types: dict[str, Any] = field(default_factory=dict[str, Any])
    work: str = ""
    examples: tuple[Json, ...] = ()

    def settings(self, given: Json) -> Json:
        """The settings as the function takes them.

        Raises:
            UsageError: one is not known, is missing, or is not what its type says.
        """
        for name in given:
            if name not in self.card.settings:
                known = ", ".join(self.card.settings) or "none"
                raise UsageError(f"{self.card.name} has no setting {name!r}; it has {known}")
        for name in self.card.required:
            if name not in given:
                raise UsageError(f"{self.card.name} needs its setting {name}: {_described(self.card, name)}")
        made: Json = {}
        for name, value in given.items():
            try:
                made[name] = msgspec.convert(value, self.types.get(name, Any), strict=False)
            except msgspec.ValidationError as error:
                raise UsageError(f"{self.card.name}: setting {name} is {value!r}: {error}") from error
        return made

    def __call__(self, inputs: dict[str, Artefact | list[Artefact]], settings: Json, work: Work) -> Artefact:
        """Call it.

        Raises:
            UsageError: it gave another type than its card says, or refused.
        """
        lent = {self.work: work} if self.work else {}
        result = self.call(**inputs, **self.settings(settings), **lent)
        said = getattr(type(result), "noun", type(result).__name__)
        if not isinstance(result, Artefact) or said != self.card.output:
            raise UsageError(f"{self.card.name}: gave {said} where its card says {self.card.output}; nothing was kept")
        return result


def tool(
    *permissions: Permission,
    asks: Sequence[str] = (),
    cost: Cost | None = None,
    version: int = 1,
    determinism: Determinism | None = None,
    missing: str = "",
    examples: Sequence[Json] = (),
    covers: Sequence[str] = (),
) -> Callable[[Callable[..., Artefact]], Tool]:
    """Make a tool of a function; its name is the function's, with hyphens.

    Args:
        permissions: what it needs.
        asks: phrases by which people ask for it; all words of a phrase must be said.
        cost: what a call may take.
        version: raised whenever the same call gives another result.
        determinism: `PURE` unless it has a permission.
        missing: why it cannot run here, in a line; a plan that needs it is refused by that.
        examples: settings (and `inputs`) that its test tries.
        covers: packages whose files decide what it gives, besides its own module: a change of theirs is one of it.
    """

    def make(function: Callable[..., Artefact]) -> Tool:
        name = function.__name__.replace("_", "-")
        hints = get_type_hints(function, include_extras=True)
        inputs: dict[str, Input] = {}
        settings: dict[str, Json] = {}
        types: dict[str, Any] = {}
        required: list[str] = []
        lent = ""
        for parameter in inspect.signature(function).parameters.values():
            hint = hints.get(parameter.name)
            if hint is None:
                raise TypeError(f"tool {name}: parameter {parameter.name} has no type")
            bare = parameter.default is inspect.Parameter.empty
            taken = _artefact(hint)
            if hint is Work:
                lent = parameter.name
            elif taken is not None:
                inputs[parameter.name] = Input(kind=taken[0].noun, many=taken[1], optional=not bare)
            else:
                types[parameter.name] = hint
                settings[parameter.name] = _schema(hint) | ({} if bare else {"default": parameter.default})
                required += [parameter.name] if bare else []
        output = hints.get("return")
        if not (isinstance(output, type) and issubclass(output, Artefact)):
            raise TypeError(f"tool {name}: it gives {output}, which is no artefact")
        card = Card(
            name=name,
            summary=" ".join((inspect.getdoc(function) or name).split("\n\n")[0].split()),
            inputs=inputs,
            settings=settings,
            required=tuple(required),
            output=output.noun,
            permissions=permissions,
            # What writes files or asks a model has done so in its own job only.
            determinism=determinism or (Determinism.OUTSIDE if permissions or lent else Determinism.PURE),
            cost=cost or Cost(),
            version=version,
            code=_code(function, covers),
            asks=tuple(asks),
            missing=missing,
        )
        return Tool(card=card, call=function, types=types, work=lent, examples=tuple(examples))

    return make


def _artefact(hint: Any) -> tuple[type[Artefact], bool] | None:
    """The artefact a parameter takes, and whether it takes several."""
    if isinstance(hint, type) and issubclass(hint, Artefact):
        return hint, False
    for each in get_args(hint):
        if isinstance(each, type) and issubclass(each, Artefact):
            return each, get_origin(hint) in (list, tuple)
    return None


def _schema(hint: Any) -> Json:
    (schema,), _ = msgspec.json.schema_components((hint,))
    return schema


def _code(function: Callable[..., Any], covers: Sequence[str]) -> str:
    """The digest of the module that a tool stands in, and of the packages that decide what it gives."""
    module = inspect.getmodule(function)
    parts: list[str] = []
    for name in covers:
        folder = Path(str(importlib.import_module(name).__file__)).parent
        files = sorted(each for each in folder.rglob("*") if each.is_file() and "__pycache__" not in each.parts)
        parts += [f"{each.relative_to(folder)}:{digest(each.read_bytes())}" for each in files]
    try:
        source = inspect.getsource(module if module is not None else function)
    except (OSError, TypeError):
        source = function.__qualname__
    return digest("code", source, *parts)[:16]


def _described(card: Card, name: str) -> str:
    return str(card.settings[name].get("description", card.settings[name].get("type", "a value")))


__all__ = ["Card", "Cost", "Determinism", "Input", "Meta", "Permission", "Tool", "tool"]
