"""The tools of one episode as they are served to its program: over MCP, each call a small turn with the run's stages.

    program's client ─ tools/list ─▶ the tools in force, as the stages left them (poisoned, renamed, …)
                     ─ tools/call ─▶ before_turn ─▶ on_action ─▶ env.step ─▶ on_observation ─▶ the answer

The program's turns are the gateway's to keep, the results of its calls among them. So each answer is remembered as it
was shown, and the gateway asks who wrote it when the program sends it on to its model (`witness`): an answer that an
attacker wrote stands on the tree under the attacker's name, and beside it what the environment said, as with any agent.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from silva.envs import EnvError
from silva.envs.protocol import Observation
from silva.models.gateway.witness import Witnessed
from silva.rollout.agent import Turn
from silva.rollout.ending import Ended, Stopped
from silva.rollout.episode import timed
from silva.rollout.guided_nodes import REFUSES, REWRITES, REWRITTEN
from silva.rollout.live import Live, Refusal
from silva.rollout.mcp_server import in_words
from silva.rollout.shown import Shown
from silva.rollout.stages.pipeline import Pipeline
from silva.tree import Author, Message, Node, TextPart, Tool, ToolCall, assistant, tool_result

INSTRUCTIONS = "The tools of the task that you were given."
OVER = "The task is over: nothing is done any more."


@dataclass(slots=True)
class Answer:
    """One answer as the program was given it: who wrote it, and what the environment said."""

    text: str
    author: Author
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    original: str | None = None
    stage: str = ""
    refuses: bool = False
    claimed: bool = False


class ServedTools:
    """The tools of one episode. `observation` is what the environment said last, `failure` what ended it before its
    time, `asked` whether the program's client wanted to know them, and `called` how many calls of it were taken.

    Args:
        env: the leased environment.
        live: the episode as stages see it; its path has the opening.
        stages: what happens around a call.
        opened: the opening, as the environment said it.
    """

    def __init__(self, env: Any, live: Live, stages: Pipeline, opened: Observation) -> None:
        self._env, self._live, self._stages = env, live, stages
        self._numbers = itertools.count(1)
        self._names = {tool.name for tool in opened.tools or ()}
        self._steps = 0
        self.observation = opened
        self.failure: EnvError | Ended | None = None
        self.answers: list[Answer] = []
        self.asked = False
        self.called = 0

    @property
    def over(self) -> bool:
        """Whether no call is taken any more."""
        said = self.observation
        return said.done or said.truncated or self.failure is not None

    @property
    def names(self) -> frozenset[str]:
        """What the environment's tools are called, whatever a client puts before that."""
        return frozenset(self._names | {tool.name for tool in self._live.path.tools})

    async def tools(self) -> Sequence[Tool]:
        """The tools in force."""
        self.asked = True
        return self._live.path.tools

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Take a call, and say what came of it."""
        if self.over:
            return OVER
        self.called += 1
        live, path = self._live, self._live.path
        made = ToolCall(
            id=f"call_{next(self._numbers)}", name=name, arguments=json.dumps(arguments, ensure_ascii=False)
        )
        turn, started = Turn(message=assistant("", made)), time.time()
        try:
            await self._stages.before_turn(live)
            said = await self._stages.on_action(live, turn)
            if isinstance(said, Refusal):
                await live.refuse(turn, started, said)
                return self._refused(said, path.walk[-1])
            action = path.act(said, started)
            observation, seconds = await timed(self._step(action.message))
            shown = await self._stages.on_observation(live, observation)
            path.observe(observation, seconds, shown)
        except Stopped:
            self.observation = Observation(truncated=True)
            return OVER
        except (EnvError, Ended) as failure:
            self.failure = failure
            return OVER
        return self._answered(shown)

    def witness(self, message: Message, spoke: str) -> Witnessed | None:
        """Who wrote a result that the program sends on to its model; see `silva.models.gateway.witness`."""
        if message.role != "tool":
            return None
        found = [each for each in self.answers if each.text and _within(each.text, message.text)]
        answer = next((each for each in found if not each.claimed), found[-1] if found else None)
        if answer is None:
            return None
        answer.claimed = True
        marks = dict(answer.attributes)
        if answer.refuses:
            marks |= {REFUSES: spoke, "by": answer.stage}
        if answer.original is None:
            return Witnessed(author=answer.author, attributes=marks) if marks else None
        said = _replaced(message.text, answer.text, answer.original)
        original = msgspec.structs.replace(message, parts=(TextPart(text=said),))
        return Witnessed(
            author=answer.author,
            attributes={**marks, "by": answer.stage},
            original=original,
            beside={REWRITTEN: answer.stage},
            link=REWRITES,
        )

    def unseen(self) -> dict[str, Any]:
        """What stages noted of answers that the program never sent on to its model."""
        noted: dict[str, Any] = {}
        for each in self.answers:
            noted |= {} if each.claimed else each.attributes
        return noted

    async def _step(self, action: Message) -> Observation:
        """The environment's answer to a call; one of a tool that it does not have is no step of it."""
        (made,) = action.tool_calls
        if made.name not in self._names:
            return Observation(messages=(tool_result(made.id, f"There is no tool {made.name}.", made.name),))
        said: Observation = await self._env.step(action)
        self._steps += 1
        if self._steps >= self._env.capabilities.max_turns and not said.done:
            said = msgspec.structs.replace(said, truncated=True)
        if said.tools is not None:
            self._names = {tool.name for tool in said.tools}
        self.observation = said
        return said

    def _refused(self, refusal: Refusal, answer: Node) -> str:
        self.answers.append(Answer(answer.message.text, refusal.author, stage=refusal.by, refuses=True))
        return answer.message.text

    def _answered(self, shown: Shown) -> str:
        text, said = _text(shown.observation), _text(shown.original)
        before = shown.original.attributes
        noted = {name: value for name, value in shown.observation.attributes.items() if before.get(name) != value}
        writers = sorted(shown.writers.values(), key=lambda each: each.author is Author.ATTACKER)
        answer = Answer(text, Author.ENVIRONMENT, noted)
        if writers:
            answer.author, answer.stage = writers[-1].author, writers[-1].stage
            answer.original = said if said != text else None
        self.answers.append(answer)
        return text


def called_as(name: str, names: frozenset[str]) -> str:
    """What the environment calls a tool that a client calls otherwise, having put its server's name before it."""
    known = [each for each in names if name == each or name.endswith((f"_{each}", f".{each}", f"-{each}"))]
    return max(known, key=len, default=name)


def _text(observation: Observation) -> str:
    return "\n\n".join(map(in_words, observation.messages))


def _within(text: str, message: str) -> bool:
    return text in message or json.dumps(text)[1:-1] in message or json.dumps(text, ensure_ascii=False)[1:-1] in message


def _replaced(message: str, text: str, original: str) -> str:
    for form in (str, lambda each: json.dumps(each)[1:-1], lambda each: json.dumps(each, ensure_ascii=False)[1:-1]):
        if form(text) in message:
            return message.replace(form(text), form(original))
    return original
