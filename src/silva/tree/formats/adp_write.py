"""From records to a trajectory of the Agent Data Protocol, by the rules of its version 1.5.0.

    walk ─▶ which observation answers which call ─▶ actions and observations ─▶ unanswered calls cut ─▶ row

No field but the protocol's; an id of a call is unique and exactly one later observation has it; a call that nothing
answers is written only where no observation follows, and without an id; an answer never comes from the user. The
protocol has no system message: it is an observation of the environment by the name of `system`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from silva.tree.formats.chat import arguments
from silva.tree.formats.images import reference
from silva.tree.message import ImagePart, Json, Message, ThinkingPart, ToolCall
from silva.tree.node import Node
from silva.tree.trajectory import Trajectory
from silva.tree.tree import tools as tools_of

VERSION = "1.5.0"
KEPT, CODE, SYSTEM = "adp", "code_action", "system"
_CALLS = ("api_action", "code_action")
_SOURCES = ("user", "agent", "environment")
# Some of the languages the protocol lists; code in another goes out as a call, which every version takes.
_LANGUAGES = frozenset(
    re.findall(
        r"\w+",
        "bash c cpp csharp css go html java javascript json julia kotlin lua markdown matlab perl php plaintext "
        "powershell python python3 r ruby rust scala sh shell sql swift text typescript xml yaml",
    )
)
_PAGE = ("html", "axtree", "url", "image_observation", "viewport_size")


def row_of(trajectory: Trajectory, path: Sequence[Node]) -> Json:
    """The row of one trajectory, its extension left aside."""
    given: Any = trajectory.attributes.get(KEPT)
    kept = dict(cast(Json, given)) if isinstance(given, dict) else {}
    own: Any = kept.get("id")
    content = _cut([item for items in _items(path) for item in items])
    row: Json = {"schema_version": VERSION, "id": own if isinstance(own, str) else trajectory.id, "content": content}
    offered: list[Any] = [tool.name for tool in tools_of(path)]
    for key in ("available_apis", "available_custom_tools"):  # the first is the older name
        if isinstance(kept.get(key), list):
            offered = [name for name in cast(list[Any], kept[key]) if isinstance(name, str)]
    if offered:
        called = [item["function"] for item in content if item["class_"] == "api_action"]
        row["available_custom_tools"] = list(dict.fromkeys([*offered, *called]))
    languages = sorted({item["language"] for item in content if item["class_"] == CODE})
    if languages:
        row["available_code_languages"] = languages
    details: Any = kept.get("details")
    row["details"] = dict(cast(Json, details)) if isinstance(details, dict) else {}
    return row


def _items(path: Sequence[Node]) -> list[list[Json]]:
    """What each node is written as, the links between calls and observations made."""
    answered = _answered(path)
    names: dict[tuple[int, int], str] = {}
    for at in answered.values():
        wanted = own = path[at[0]].message.tool_calls[at[1]].id or "call"
        number = 1
        while own in names.values():
            number += 1
            own = f"{wanted}-{number}"
        names[at] = own
    found: list[list[Json]] = []
    for place, node in enumerate(path):
        given: Any = node.attributes.get(KEPT)
        kept = cast(Json, given) if isinstance(given, dict) else {}
        reward: Json = {} if node.reward is None else {"reward": node.reward}
        if node.message.role != "assistant" or "source" in kept:
            link = names[answered[place]] if place in answered else None
            found.append([{**_observation(node.message, kept, link), **reward}])
        else:
            links = [names.get((place, number)) for number in range(len(node.message.tool_calls))]
            found.append(_actions(node.message, kept, reward, links))
    return found


def _answered(path: Sequence[Node]) -> dict[int, tuple[int, int]]:
    """The place of each observation that answers a call, and the call: its node's place and its number there."""
    found: dict[int, tuple[int, int]] = {}
    open_: dict[str, tuple[int, int]] = {}
    for place, node in enumerate(path):
        if node.message.role == "assistant":
            open_ |= {call.id: (place, number) for number, call in enumerate(node.message.tool_calls)}
        elif node.message.tool_call_id in open_:
            found[place] = open_.pop(node.message.tool_call_id)
    return found


def _cut(items: list[Json]) -> list[Json]:
    """The items without calls that nothing answers and an observation follows; what was said before them stays."""
    found: list[Json] = []
    for item in reversed(items):
        lone = item["class_"] in _CALLS and "tool_call_id" not in item
        if lone and found and str(found[-1]["class_"]).endswith("observation"):
            said = {key: item[key] for key in ("reasoning_content", "reward") if key in item}
            words = item.get("description")
            if not said and not words:
                continue
            item = {"class_": "message_action", "content": words or "", **said}
        found.append(item)
    return found[::-1]


def _actions(message: Message, kept: Json, reward: Json, links: list[str | None]) -> list[Json]:
    thought: Json = {"reasoning_content": message.thinking} if message.thinking else {}
    words = text_of(message)
    if not message.tool_calls:
        own = {"description": kept["description"]} if isinstance(kept.get("description"), str) else {}
        return [{"class_": "message_action", "content": words, **own, **thought, **reward}]
    items = [_action(call, link) for call, link in zip(message.tool_calls, links, strict=True)]
    items[0] |= {**({"description": words} if words else {}), **thought, **reward}
    return items


def _action(call: ToolCall, link: str | None) -> Json:
    given = arguments(call)
    linked: Json = {} if link is None else {"tool_call_id": link}
    code = call.name == CODE and set(given) == {"language", "content"} and isinstance(given["content"], str)
    if code and isinstance(given["language"], str) and given["language"] in _LANGUAGES:
        return {"class_": CODE, **given, "description": None, **linked}
    return {"class_": "api_action", "function": call.name, "kwargs": given, **linked}


def _observation(message: Message, kept: Json, link: str | None) -> Json:
    linked: Json = {} if link is None else {"tool_call_id": link}
    if kept.get("class_") == "web_observation":
        return {"class_": "web_observation", **{key: kept.get(key) for key in _PAGE}, **linked}
    said: Any = kept.get("source")
    natural = "user" if message.role == "user" else "agent" if message.role == "assistant" else "environment"
    source = said if said in _SOURCES else natural
    source = "environment" if link is not None and source == "user" else source
    images = [part for part in message.parts if isinstance(part, ImagePart)]
    shown: Any = kept.get("content") if kept.get("class_") == "image_observation" else None
    if len(images) == len(message.parts) == 1 or isinstance(shown, str):
        marked: Json = {"annotations": kept["annotations"]} if "annotations" in kept else {}
        content = reference(images[0]) if images else shown
        return {"class_": "image_observation", "content": content, "source": source, **marked, **linked}
    name = SYSTEM if message.role == "system" else message.name
    named: Json = {} if name is None else {"name": name}
    return {"class_": "text_observation", "content": text_of(message), "source": source, **named, **linked}


def text_of(message: Message) -> str:
    """The words of a message; an image among them is named by its path."""
    shown = (
        f"[image {reference(part)}]" if isinstance(part, ImagePart) else part.text
        for part in message.parts
        if not isinstance(part, ThinkingPart)
    )
    return "\n".join(shown)
