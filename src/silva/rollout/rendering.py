"""A turn that no model sampled, as the policy would have sampled it: the ids for it, its end mark with them.

    view ─▶ what the agent shows its model ─▶ renderer ─▶ prompt ids
    action ─▶ the agent's form (react: words, tools: calls) ─▶ renderer ─▶ the reply's ids ─▶ read as a sampled reply is
                                                                                               └─▶ the turn's message

What the environment gets is what the agent reads from those ids, and it must be what was meant: an action that the
form cannot hold is refused by name, so nothing is taught that the agent would read otherwise.
"""

from __future__ import annotations

import json
from typing import Literal

import msgspec

from silva.models.exact import Continuation, Renderer, RenderError, prompt_for
from silva.rollout.agent import FormError, Turn, View
from silva.rollout.react import STOP, parse, render, written
from silva.tree import Message, TextPart, Tokens, Tool, assistant

Form = Literal["tools", "react"]


class Rendering:
    """The ids of one episode's turns. Make a new one for every episode.

    Args:
        renderer: of the policy that is to learn from the turns.
        form: how that policy's agent has its actions written.
    """

    def __init__(self, renderer: Renderer, form: Form) -> None:
        self._renderer = renderer
        self._form = form
        self._known: Continuation | None = None

    def turn(self, view: View, action: Message, model: str) -> Turn:
        """The turn that says `action` after `view`, with the ids of prompt and reply and no log-probabilities.

        Raises:
            FormError: the action cannot be written in the form, or the template refuses the conversation.
        """
        messages, tools, said, stop = self._shown(view, action)
        stop = (*view.sampling.stop, *stop)
        prompt, reply, heard = self._said(messages, tools, said, stop)
        if heard.text != said.text and heard.text.strip() == said.text.strip():
            # blanks that a reader drops would be written otherwise in every later prompt
            said = msgspec.structs.replace(said, parts=heard.parts)
            prompt, reply, heard = self._said(messages, tools, said, stop)
        read = parse(heard, len(view.messages)) if self._form == "react" else heard
        self._check(action, said, heard, read)
        self._known = Continuation(ids=prompt + reply, messages=(*messages, heard), tools=tools)
        return Turn(
            message=read,
            finish_reason="tool_calls" if heard.tool_calls else "stop",
            tokens=Tokens(ids=reply, sampled=len(reply)),
            prompt_ids=prompt,
            model=model,
            attributes={"renderer": self._renderer.name},
        )

    def _shown(
        self, view: View, action: Message
    ) -> tuple[tuple[Message, ...], tuple[Tool, ...], Message, tuple[str, ...]]:
        if self._form == "tools":
            return view.messages, view.tools, action, ()
        if len(action.tool_calls) > 1:
            raise FormError(
                f"{len(action.tool_calls)} calls in one turn cannot be written in react's form, which holds one: "
                "use --agent tools"
            )
        return render(view.messages, view.tools), (), assistant(written(action)), (STOP,)

    def _said(
        self, messages: tuple[Message, ...], tools: tuple[Tool, ...], said: Message, stop: tuple[str, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...], Message]:
        """The prompt's ids, the reply's, and what a sampled reply of these ids is read as."""
        try:
            prompt, reply = self._ids(messages, tools, said)
        except RenderError as fault:
            raise FormError(str(fault)) from fault
        reader = self._renderer.reader(tools, stop=stop, name=str(len(prompt)))
        reader.feed(reply)
        return prompt, reply, reader.finish()[0].message

    def _ids(
        self, messages: tuple[Message, ...], tools: tuple[Tool, ...], said: Message
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The prompt's ids and the reply's; together they begin what the renderer makes of the whole conversation."""
        renderer = self._renderer
        whole = renderer.render((*messages, said), tools, generation_prompt=False)
        prompt = prompt_for(renderer, messages, tools, self._known).ids
        if whole[: len(prompt)] != prompt:
            prompt = renderer.render(messages, tools)
        if whole[: len(prompt)] != prompt:
            raise FormError(
                f"the chat template of {renderer.name} does not write a reply after the head it gives the model: "
                "its ids would not be those that are sampled"
            )
        tail = whole[len(prompt) :]
        end = next((place for place, number in enumerate(tail) if number in renderer.stop_ids), None)
        if end is not None:
            return prompt, tail[: end + 1]
        for after in _next(said):
            longer = renderer.render((*messages, said, after), tools, generation_prompt=False)[len(whole) :]
            # Where a template ends no turn, it is the next one's mark that stops the model, so that is its last id.
            if longer and longer[0] in renderer.stop_ids:
                return prompt, (*tail, longer[0])
        raise FormError(
            f"the chat template of {renderer.name} does not end a reply with an id that stops the model: "
            "name the id in generation_config.json (eos_token_id)"
        )

    def _check(self, action: Message, said: Message, heard: Message, read: Message) -> None:
        if [_meant(call.name, call.arguments) for call in read.tool_calls] != [
            _meant(call.name, call.arguments) for call in action.tool_calls
        ] or heard.text != said.text:
            raise FormError(
                f"{self._form}'s form does not hold what is meant: of {_line(said)!r} the agent would read "
                f"{[call.name for call in read.tool_calls] or 'words'} where "
                f"{[call.name for call in action.tool_calls] or 'words'} is meant"
            )


def _next(said: Message) -> tuple[Message, ...]:
    """What may follow a reply: the answer of its first call, else what somebody says."""
    parts = (TextPart(text="?"),)
    calls = said.tool_calls[:1]
    answers = tuple(Message(role="tool", parts=parts, tool_call_id=call.id, name=call.name) for call in calls)
    return answers or (Message(role="user", parts=parts),)


def _meant(name: str, arguments: str) -> tuple[str, object]:
    try:
        return name, json.loads(arguments or "{}")
    except json.JSONDecodeError:
        return name, arguments.strip()


def _line(message: Message) -> str:
    text = " ".join(message.text.split()) or ", ".join(call.name for call in message.tool_calls)
    return text[:80] + ("…" if len(text) > 80 else "")
