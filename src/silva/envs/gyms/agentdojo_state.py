"""A suite's environment with an attacker's words in it, as the package's own loader would make it, without reading the
whole of its YAML again for every attempt.

    environment.yaml ─ once ─▶ its state with "{vector}" still in it, and where those stand in the YAML and in the state
    injections ─▶ only those scalars are read again ─▶ a copy of the state with them in their places

The package writes the words into the YAML's text and reads that, so what a scalar becomes (folded lines, escapes) is
decided by the YAML around it; here the same scalar is read from the same text. Where that would not do (words that end
their scalar, a vector in a key) the package's loader is asked.
"""

from __future__ import annotations

import pickle
import re
from functools import cache, lru_cache
from typing import Any

from pydantic import BaseModel

_VECTOR = re.compile(r"\{(\w+)\}")

Place = tuple[tuple[Any, ...], str]
"""Where a text stands in the state, step by step from its root, and its source in the YAML."""


class Suite:
    """One suite's states. `suite` is the package's own."""

    def __init__(self, suite: Any) -> None:
        import yaml
        from agentdojo.task_suite.task_suite import read_suite_file

        self._suite = suite
        self._defaults: dict[str, str] = suite.get_injection_vector_defaults()
        text = read_suite_file(suite.name, "environment.yaml", suite.data_path)
        loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
        self._read = lru_cache(maxsize=4096)(lambda source: _scalar(yaml, loader, source))
        sources = {node.value: text[node.start_mark.index : node.end_mark.index] for node in _scalars(yaml, text)}
        base = suite.environment_type.model_validate(yaml.load(text, Loader=loader))
        self._base = pickle.dumps(base, 5)  # a copy is read from it four times as fast as it is copied
        places, plain = _found(base, sources)
        self._places: list[Place] | None = places if plain and "{{" not in text and "}}" not in text else None

    @property
    def vectors(self) -> tuple[str, ...]:
        """Where an attacker's words may stand."""
        return tuple(self._defaults)

    def state(self, injections: dict[str, str]) -> Any:
        """A new state of the suite with these words in it; the other vectors have their own."""
        if self._places is None:
            return self._suite.load_and_inject_default_environment(injections)
        words = {**self._defaults, **injections}
        state = pickle.loads(self._base)
        for path, source in self._places:
            value = self._read(source.format(**words))
            if value is None:
                return self._suite.load_and_inject_default_environment(injections)
            *way, last = path
            holder = state
            for step in way:
                holder = _inside(holder)[step]
            _inside(holder)[last] = value
            if isinstance(holder, BaseModel) and _follows(type(holder), last):
                vars(holder).update(vars(type(holder).model_validate(vars(holder))))
        return state


@cache
def _follows(kind: type[BaseModel], field: str) -> bool:
    """Whether reading a model again may say more than the text that was put in a field of it: other fields follow from
    it, such as a file's size, or not every text may stand there."""
    made = kind.__pydantic_decorators__
    checked = made.validators or made.field_validators or made.root_validators or made.model_validators
    return bool(checked) or kind.model_fields[field].annotation is not str or bool(kind.model_fields[field].metadata)


def _scalar(yaml: Any, loader: Any, source: str) -> str | None:
    """What a quoted scalar's text says; None where it is not one scalar (any more)."""
    try:
        value = yaml.load(source, Loader=loader)
    except yaml.YAMLError:
        return None
    return value if isinstance(value, str) and source[:1] == '"' and source[-1:] == '"' else None


def _scalars(yaml: Any, text: str) -> list[Any]:
    waiting, found = [yaml.compose(text, Loader=yaml.SafeLoader)], []
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.ScalarNode):
            found += [node] if _VECTOR.search(node.value) else []
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value
        else:
            waiting += [each for pair in node.value for each in pair]
    return found


def _found(state: Any, sources: dict[str, str]) -> tuple[list[Place], bool]:
    """Where the vectors stand in a state, and whether each stands as it does in the YAML."""
    places: list[Place] = []
    waiting: list[tuple[tuple[Any, ...], Any]] = [((), state)]
    plain, seen = True, set[int]()
    while waiting:
        path, value = waiting.pop()
        inside = _inside(value)
        if id(inside) in seen:  # one object in two lists; a copy shares it, too
            continue
        seen.add(id(inside))
        for key, each in inside.items() if isinstance(inside, dict) else enumerate(inside):
            plain = plain and not (isinstance(key, str) and _VECTOR.search(key))
            if isinstance(each, str) and _VECTOR.search(each):
                plain = plain and each in sources
                places.append(((*path, key), sources.get(each, "")))
            elif isinstance(each, BaseModel | dict | list):
                waiting.append(((*path, key), each))
    return places, plain


def _inside(value: Any) -> Any:
    return value.__dict__ if isinstance(value, BaseModel) else value
