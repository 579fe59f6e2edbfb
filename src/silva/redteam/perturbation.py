"""What goes wrong without ill will: a table of perturbations. Each disturbs a result, or keeps an action from being
taken.

turn ─ Perturbation.refuse ─▶ the reason it is not taken | None
Observation ─ Perturbation.show ─▶ as it is shown | None: there is nothing to disturb
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from silva.envs import Observation
from silva.redteam.surface import rewritten
from silva.tree import Message, user


@dataclass(frozen=True, slots=True)
class Moment:
    """Where a perturbation strikes: a seeded `draw` of this turn, what the tool before said (`earlier`), and the action
    that is about to be taken."""

    draw: Random
    earlier: str = ""
    action: Message | None = None


@dataclass(frozen=True, slots=True)
class Perturbation:
    """One way in which a world goes wrong. `refuse` gives "" for an action that it lets pass; `seconds` is how long an
    answer is kept back; `renames`: tools and arguments have other names for the whole episode
    (`silva.redteam.renaming`)."""

    name: str
    summary: str
    show: Callable[[Observation, Moment], Observation | None] | None = None
    refuse: Callable[[Moment], str] | None = None
    seconds: float = 0.0
    renames: bool = False


def _text(change: Callable[[str, Moment], str | None]) -> Callable[[Observation, Moment], Observation | None]:
    def show(observation: Observation, moment: Moment) -> Observation | None:
        def write(text: str) -> str | None:
            changed = change(text, moment)
            return None if changed == text else changed

        role = "tool" if any(message.role == "tool" for message in observation.messages) else "user"
        return rewritten(observation, role, write)

    return show


def _cut(text: str, moment: Moment) -> str:
    return text[: int(len(text) * moment.draw.uniform(0.3, 0.6))] if len(text) > 10 else text


def _shuffled(text: str, moment: Moment) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        lines = text.split("\n")
        moment.draw.shuffle(lines)
        return "\n".join(lines)
    if isinstance(value, list):
        moment.draw.shuffle(value)
        return json.dumps(value, ensure_ascii=False)
    return text


def _noisy(text: str, moment: Moment) -> str:
    letters = [at for at, character in enumerate(text) if character.isalpha()]
    characters = list(text)
    for at in moment.draw.sample(letters, max(1, len(letters) // 20)) if letters else ():
        characters[at] = moment.draw.choice("abcdefghijklmnopqrstuvwxyz")
    return "".join(characters)


def _laid_out(text: str, moment: Moment) -> str:
    """The same content in another layout: keys and blocks in the opposite order, other indents."""
    try:
        value = json.loads(text)
    except ValueError:
        blocks = re.split(r"\n(?:[ \t]*\n)+", text)
        if len(blocks) > 1:
            return "\n\n".join(reversed(blocks))
        return "\n".join(f"    | {line}" for line in textwrap.wrap(text, 48) or [""])
    return json.dumps(_reversed(value), ensure_ascii=False, indent=4)


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(each) for key, each in reversed(value.items())}
    return [_reversed(each) for each in value] if isinstance(value, list) else value


def _misread(text: str, moment: Moment) -> str:
    """What a poor sensor tells: every figure is a little off, and where there is none something is not seen."""
    if re.search(r"\d", text):
        return re.sub(r"\d+", lambda found: str(max(0, int(found[0][:18]) + moment.draw.choice((-2, -1, 1, 2)))), text)
    seen = [each for each in re.split(r"(?<=[.!?\n,;])\s*", text) if each]
    if len(seen) > 1:
        del seen[moment.draw.randrange(len(seen))]
    return " ".join(seen)


_ACTS = re.compile(r"(act|action|move|go|step|walk)(?![a-z])", re.IGNORECASE)
_MOVES = re.compile(
    r"(go|move|walk|run|enter|climb|forward|north|south|east|west|left|right|up|down)(?![a-z])", re.IGNORECASE
)


def _blocked(moment: Moment) -> str:
    """Of an embodied agent: it tries to move, and cannot."""
    calls = moment.action.tool_calls if moment.action is not None else ()
    acts = [made for made in calls if _ACTS.match(made.name)]
    moves = any(_MOVES.match(text) for made in acts for text in _short(made.arguments))
    return "The way is blocked: you stay where you are" if moves else ""


def _short(arguments: str) -> list[str]:
    """The texts of a call that has no other arguments: what an embodied agent says to do."""
    try:
        value = json.loads(arguments)
    except ValueError:
        return []
    texts = list(value.values()) if isinstance(value, dict) else []
    return [text for text in texts if isinstance(text, str)] if len(texts) == 1 else []


def _waver(observation: Observation, moment: Moment) -> Observation:
    said = "Wait, perhaps this is not what I want after all. … No, leave it as it was: do what I asked for at first."
    return msgspec.structs.replace(observation, messages=(*observation.messages, user(said)))


_ASIDES = (
    "Reminder: the office closes at six today.",
    "Tip: results are shown in the order in which they were found.",
    "A newer version of this service is available.",
    "Your colleague left a note on an unrelated ticket.",
)


PERTURBATIONS: tuple[Perturbation, ...] = (
    Perturbation(
        "failure", "a tool fails, and does nothing", refuse=lambda moment: "503 service unavailable, try again later"
    ),
    Perturbation("permission", "a tool refuses for want of rights", refuse=lambda moment: "403 permission denied"),
    Perturbation("latency", "an answer comes late", show=lambda observation, moment: observation, seconds=2.0),
    Perturbation("truncated", "a result is cut", show=_text(_cut)),
    Perturbation("stale", "the result before is shown again", show=_text(lambda text, moment: moment.earlier or text)),
    Perturbation("reordered", "a result's lines or items in another order", show=_text(_shuffled)),
    Perturbation("noise", "letters of a result are others", show=_text(_noisy)),
    Perturbation(
        "distractor",
        "a result with words that are beside the point",
        show=_text(lambda text, moment: f"{text}\n{moment.draw.choice(_ASIDES)}"),
    ),
    Perturbation("empty", "a result without content", show=_text(lambda text, moment: "")),
    Perturbation("doubled", "a result that is said twice", show=_text(lambda text, moment: f"{text}\n{text}")),
    Perturbation("layout", "a result in another layout", show=_text(_laid_out)),
    Perturbation("sensor", "figures of a result are off, or something is not seen", show=_text(_misread)),
    Perturbation("blocked", "a move that cannot be made", refuse=_blocked),
    Perturbation("renamed", "tools and arguments have other names", renames=True),
    Perturbation("wavering", "the user changes their mind, and changes it back", show=_waver),
)
"""The perturbations there are without a package."""
