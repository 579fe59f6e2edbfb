"""What goes back to the agent: the screen as text and picture, and one answer for each of its actions.

Reply (a look), notes ─▶ Shown ─▶ answers(action, what each said, Shown) ─▶ messages, blobs
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from silva.envs.gyms.desktop.display import Ended, Reply
from silva.envs.gyms.desktop.seeing import table
from silva.tree import ImagePart, Message, Record, TextPart


class Shown(Record, frozen=True, kw_only=True):
    """A look at the screen: text, a picture or none, and the picture's bytes by its name."""

    text: str
    image: tuple[ImagePart, ...] = ()
    blobs: dict[str, bytes] = msgspec.field(default_factory=dict[str, bytes])

    def parts(self, before: str = "") -> tuple[TextPart | ImagePart, ...]:
        """The parts of a message, after some words."""
        return TextPart(text="\n\n".join(filter(None, (before, self.text)))), *self.image


def shown(look: Reply, notes: Sequence[str], elements: bool) -> Shown:
    """The screen as it is shown: notes, the tree where it is wanted, the picture where one was taken."""
    text = "\n\n".join([*notes, *([table(look)] if elements else [])])
    if not look.picture:
        return Shown(text=text)
    name = hashlib.sha256(look.picture).hexdigest()
    image = ImagePart(hash=name, width=look.width, height=look.height)
    return Shown(text=text, image=(image,), blobs={name: look.picture})


def crashes(ended: Sequence[Ended]) -> list[str]:
    """What to say of applications that have ended by a fault."""
    return [
        f"[{each.name} has crashed: exit code {each.code}{f', {each.said}' if each.said else ''}]"
        for each in ended
        if each.code
    ]


def answers(action: Message, said: list[str], last: Shown | None = None) -> tuple[Message, ...]:
    """One answer for each call, the last with what is on the screen; for words, one message."""
    if not action.tool_calls:
        words = "\n".join(said)
        parts = (TextPart(text=words),) if last is None else last.parts(words)
        return (Message(role="user", parts=parts),) if words or last else ()
    made: list[Message] = []
    for number, (each, words) in enumerate(zip(action.tool_calls, said, strict=True)):
        ends = number == len(action.tool_calls) - 1 and last is not None
        parts = last.parts(words) if ends and last is not None else (TextPart(text=words),)
        made.append(Message(role="tool", parts=parts, tool_call_id=each.id, name=each.name))
    return tuple(made)


def rules(width: int, height: int, every: int) -> str:
    """What the agent is told of the desktop before anything else."""
    shrunk = f" (pictures show it at 1/{every} of that; actions take pixels of the screen)" if every > 1 else ""
    return (
        f"You use a Linux desktop. Its screen has {width} x {height} pixels{shrunk}; it is shown after every turn. Act "
        "by calling tools, or write pyautogui code in a block. Documents lie in /home/agent/Documents. There is no "
        "network but what a task's browser reaches. Save what you change. Call done when the task is done, fail when "
        "it cannot or should not be done: that ends it."
    )
