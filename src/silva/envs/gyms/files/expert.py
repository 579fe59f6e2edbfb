"""The next call of a task's solution, whatever was done before: what is there already is not done again.

    plan (calls whose references are r1, r2, … by their place in it) ─▶ the first call not made yet, with references by
    the names that the results have in this walk

A call counts as made where one of the same tool with the same arguments worked, whoever made it. Where the next call
was made and failed, nobody knows how to go on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from silva.envs.gyms.files.walk import Walk
from silva.errors import UsageError
from silva.tree import Json

_NAME = re.compile(r"\br(\d+)\b")
_SPOKEN = ("expression", "code")  # arguments in which names stand without $


async def following(plan: Sequence[Mapping[str, Any]], walk: Walk) -> tuple[str, Json] | None:
    """The tool and the arguments of the next call; None where there is none, or it failed."""
    names: dict[str, str] = {}
    for place, step in enumerate(plan, 1):
        tool, arguments = str(step["tool"]), _renamed(step["arguments"], names)
        try:
            meant = {key: await walk.meant(value) for key, value in arguments.items()}
        except UsageError:
            return None
        made = [each for each in walk.done if each.tool == tool and each.arguments == meant]
        worked = [each for each in made if each.worked]
        if worked and tool != "answer":
            names[f"r{place}"] = worked[-1].name
            continue
        return None if made else (tool, arguments)
    return None


def _renamed(arguments: Mapping[str, Any], names: Mapping[str, str]) -> Json:
    def put(value: Any, spoken: bool) -> Any:
        if isinstance(value, list):
            return [put(each, spoken) for each in value]
        if isinstance(value, str) and (spoken or (value.startswith("$") and not value.startswith("$$"))):
            return _NAME.sub(lambda found: names.get(found[0], found[0]), value)
        return value

    return {key: put(value, key in _SPOKEN) for key, value in arguments.items()}
