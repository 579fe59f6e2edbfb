"""What makes AgentDojo's own checks and texts quick, without another word or verdict.

    before ─ Before ─▶ bytes ─ within(after) ─▶ before, made of the very objects of `after` wherever both say the same
    a tool's result ─ Texts ─▶ the package's YAML, each item of a list written once

The package's checkers compare whole states, object by object, and pass over what is one and the same object; so a state
of before that shares what did not change is compared a hundred times as fast. A result's items are mostly those that it
had in earlier attempts.
"""

from __future__ import annotations

import pickle
from typing import Any

from pydantic import BaseModel

_KEPT = 4096
"""Texts of items that are kept."""


class Before:
    """A state as it is when this is made, however it changes afterwards."""

    def __init__(self, state: Any) -> None:
        self._whole = pickle.dumps(state, 5)
        self._fields = {name: pickle.dumps(each, 5) for name, each in vars(state).items()}
        self._known: dict[str, tuple[bytes, Any]] = {}

    def copy(self) -> Any:
        """A state like it that nobody else holds."""
        return pickle.loads(self._whole)

    def within(self, after: Any) -> Any:
        """A state equal to it that shares with `after`, which became of it, all objects that say the same in both; what
        did not change since it was asked last is not compared again."""
        fields = {name: self._field(name, each) for name, each in vars(after).items() if name in self._fields}
        if list(fields) != list(self._fields):
            return shared(self.copy(), after)
        if _all_same(fields, vars(after)):
            return after
        made = after.model_copy()
        vars(made).update(fields)
        return made

    def _field(self, name: str, after: Any) -> Any:
        now, then = pickle.dumps(after, 5), self._fields[name]
        if now == then:
            return after
        known, made = self._known.get(name, (b"", None))
        if known != now:
            made = shared(pickle.loads(then), after)
            self._known[name] = now, made
        return made


def shared(before: Any, after: Any) -> Any:
    """A state equal to `before` that shares with `after` all objects that say exactly the same in both."""
    if type(before) is not type(after):
        return before
    if isinstance(before, BaseModel):
        fields = {name: _shared_in(vars(after), name, each) for name, each in vars(before).items()}
        if _all_same(fields, vars(after)):
            return after
        made = before.model_copy()
        vars(made).update(fields)
        return made
    if isinstance(before, dict):
        entries = {name: _shared_in(after, name, each) for name, each in before.items()}
        return after if list(before) == list(after) and _all_same(entries, after) else entries
    if isinstance(before, list):
        items = [shared(each, after[at]) if at < len(after) else each for at, each in enumerate(before)]
        whole = len(before) == len(after) and all(one is other for one, other in zip(items, after, strict=True))
        return after if whole else items
    return after if before == after else before


class Texts:
    """Tools' results as the package writes them."""

    def __init__(self) -> None:
        self._known: dict[tuple[type, str], str] = {}

    def __call__(self, result: Any) -> str:
        """The text of a tool's result: `tool_result_to_str` of the package."""
        import yaml
        from agentdojo.agent_pipeline.tool_execution import tool_result_to_str

        if not isinstance(result, list) or not result or not all(isinstance(each, BaseModel) for each in result):
            return tool_result_to_str(result)
        if len({id(each) for each in result}) < len(result):
            return tool_result_to_str(result)  # an item that stands there twice is written as a reference
        if len(self._known) > _KEPT:
            self._known.clear()
        written: list[str] = []
        for each in result:
            key = (type(each), each.model_dump_json())
            if key not in self._known:
                self._known[key] = yaml.safe_dump([each.model_dump()])
            written.append(self._known[key])
        return "".join(written).strip()


def _shared_in(after: dict[Any, Any], name: Any, each: Any) -> Any:
    return shared(each, after[name]) if name in after else each


def _all_same(made: dict[Any, Any], after: dict[Any, Any]) -> bool:
    return len(made) == len(after) and all(name in after and each is after[name] for name, each in made.items())
