"""The stage that attacks: what the environment said is shown as the attacker would have it.

    opening ─▶ Offer (tools, canary) ─ goal ─▶ Order ─ framing, or an attacker ─▶ parts        (from seeds, or the walk)
    observation ─ surface ─▶ as it is shown (one part a turn, from turn `at` on)
    record ◀─ attributes, metrics, safety ◀─ verdict ◀─ the walk

Nothing is remembered beside the walk: which parts were said is read from the attacker's nodes, so an episode that is
resumed goes on where it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar

import msgspec

from silva.envs import Evaluation, Observation
from silva.errors import MissingError
from silva.redteam.attack import Attack
from silva.redteam.attackers import NotWritten
from silva.redteam.effect import Order
from silva.redteam.goal import Offer
from silva.redteam.picture import drawn, pictured, reads_none
from silva.redteam.proposing import Proposing, reply, tasked
from silva.redteam.scores import scored
from silva.redteam.surface import behind
from silva.redteam.verdict import SAID, Launch, Verdict, asks, said, verdict
from silva.rollout.guided_nodes import takes_turn
from silva.rollout.planting import PLANTED
from silva.rollout.stages import Live, Stage, Stopped
from silva.tree import Author, Node, Tool, digest

PICTURE = "picture"
"""What an attacker's node says of the picture that it drew: its hash."""

LONGEST = 100_000
"""Characters that an attack's own words may have."""


class Attacking(Stage):
    """One attack on one episode.

    Args:
        attack: `SURFACE/FRAMING/GOAL`.
        at: the turn whose result carries the first part, on surfaces of results; before which it is planted, on those
            of the environment's state.
        goal: options of the goal: `tool` and `arguments`.
        text: words to say in the place of the framing's; `{canary}` in them stands for the canary.
        attacker: who chooses the words in the place of the framing (`silva redteam list`).
        writer: who writes for the attacker: `grammar`, or a model as `--model` names it.
        tried: what the attacker tried before, by task.
        patience: turns after the last part after which the attempt ends; 0 for as many as the episode has.
        quiet: put only what the goal must find in the opening, and attack nothing.

    Raises:
        UsageError: the attack or the attacker is not known.
        ValueError: an option cannot be.
    """

    name: ClassVar[str] = "attack"
    author: ClassVar[Author] = Author.ATTACKER

    def __init__(
        self,
        attack: str,
        at: int = 1,
        goal: Mapping[str, Any] | None = None,
        text: str = "",
        attacker: str = "",
        writer: str = "",
        tried: Mapping[str, Sequence[Any]] | None = None,
        patience: int = 0,
        quiet: bool = False,
    ) -> None:
        self._attack = Attack.of(attack)
        if at < 1:
            raise ValueError(f"at {at}: turns count from 1")
        if len(text) > LONGEST:
            raise ValueError(f"text has {len(text):,} characters; {LONGEST:,} are the most")
        if any(ord(character) < 32 and character not in "\n\t" for character in text):
            raise ValueError("text has control characters; write them as an environment would show them")
        unknown = sorted(set(goal or {}) - {"tool", "arguments"})
        if unknown:
            raise ValueError(f"goal has tool and arguments, not {', '.join(unknown)}")
        if patience < 0:
            raise ValueError(f"patience {patience}: turns, 0 for no limit")
        self._proposing = Proposing(attacker, writer, tried or {}) if attacker else None
        if self._proposing and text:
            raise ValueError("text and attacker: one of them chooses the words")
        if self._proposing and self._attack.surface.moment == "state":
            raise ValueError(f"attacker {attacker}: what it says is shown, and {self._attack.surface.name} is planted")
        if self._proposing and not self._proposing.once and self._attack.surface.moment == "opening":
            raise ValueError(
                f"attacker {attacker} speaks at every turn, {self._attack.surface.name} only in the opening"
            )
        self._at, self._wanted, self._text, self._patience, self._quiet = at, dict(goal or {}), text, patience, quiet
        self._live: Live | None = None
        self._order: Order | None = None
        self._why = ""
        self._judged: Evaluation | None = None

    @property
    def programs(self) -> bool:
        """See `Stage`: what stands in the opening, or in the state before the first turn."""
        early = self._attack.surface.moment == "opening" or (self._attack.surface.moment == "state" and self._at == 1)
        return early and self._proposing is None and not self._patience

    @property
    def calls(self) -> bool:
        """See `Stage`: what comes with a result of a tool that a program is served, too."""
        return not self._patience

    async def before_turn(self, live: Live) -> None:
        """End an attempt whose patience is spent.

        Raises:
            Stopped: it is.
        """
        walk = live.path.walk
        last = max((place for place, node in enumerate(walk) if self._speaks(node)), default=None)
        if not self._patience or last is None:
            return
        if sum(map(takes_turn, walk[last:])) >= self._patience:
            raise Stopped(by=self.name, why=f"{self._patience} turns after the attack")

    async def on_observation(self, live: Live, observation: Observation) -> Observation:
        """See `Stage`."""
        opening = live.path.turns == 0
        order = self._ordered(live, observation.tools if opening and observation.tools else live.path.tools)
        if order is None:
            return observation
        task = tasked(observation.messages if opening else [node.message for node in live.path.walk])
        if opening and order.plant:
            planted = behind("system")(observation, order.plant) or behind("user")(observation, order.plant)
            observation = planted or observation
        surface = self._attack.surface
        if surface.moment == "state" and self._attack.framing.drawn:
            self._why = f"a picture stands in a message, and {surface.name} is none"
            return observation
        if surface.moment == "state":
            return observation if self._quiet else await self._planted(live, observation, order)
        if self._quiet or opening is not (surface.moment == "opening"):
            return observation
        if not opening and live.path.turns < self._at:
            return observation
        if self._attack.framing.drawn:
            self._why = await reads_none(live)
            if self._why:
                return observation
        if self._proposing is not None:
            return await self._adapted(live, observation, self._proposing, order, task)
        parts = self._parts(order)
        before = {str(found.get("words")) for node in live.path.walk if (found := said(node))}
        left = ["\n".join(parts)] if opening else [part for part in parts if part not in before]
        return self._placed(observation, {"words": left[0]}) if left else observation

    async def on_evaluation(self, live: Live, evaluation: Evaluation) -> Evaluation:
        """See `Stage`."""
        self._live, self._judged = live, evaluation
        found = self._verdict()
        return evaluation if found is None else scored(evaluation, found)

    def recall(self, live: Live, nodes: Sequence[Node]) -> None:
        """See `Stage`."""
        self._ordered(live, live.path.tools)
        for found in filter(None, map(said, nodes)):
            if PICTURE in found:
                part, data = drawn(found["words"])
                live.images[part.hash] = data

    def attributes(self) -> dict[str, Any]:
        """See `Stage`."""
        attack = self._attack
        about: dict[str, Any] = {"name": attack.name, "standards": list(attack.standards)}
        if self._proposing is not None:
            about["attacker"] = self._proposing.attacker.name
            about["standards"] = list(dict.fromkeys((*attack.standards, *self._proposing.attacker.standards)))
        found = self._verdict()
        if found is None or self._order is None or self._live is None:
            return {self.name: {**about, "launched": False, "why": self._why or "the episode did not begin"}}
        about["canary"] = self._order.effect.canary
        about |= {name: value for name, value in msgspec.to_builtins(found).items() if value not in (None, [])}
        if self._proposing is None and attack.surface.moment == "result":
            about["parts"] = len(self._parts(self._order))
        if not found.launched:
            about["why"] = self._silent() or self._why or self._early()
        if self._quiet:
            about |= {"quiet": True, "why": "the attacker only looks on"}
        if self._proposing is not None:
            walk = self._live.path.walk
            about["tried"] = msgspec.to_builtins(self._proposing.tries(walk, self._order.effect))
            if found.exposed is not None:
                acts = [node.message for node in walk if takes_turn(node)][found.exposed - 1 :]
                about["reply"] = reply(acts[0] if acts else None)
        return {self.name: about}

    async def _planted(self, live: Live, observation: Observation, order: Order) -> Observation:
        if live.path.turns + 1 != self._at or observation.done or observation.truncated:
            return observation
        words, surface = "\n".join(self._parts(order)), self._attack.surface.name
        planted = await live.env.plant(surface, words)
        if not planted.where:
            self._why = planted.why or f"nothing can be put on the surface {surface}"
            return observation
        told = {"surface": surface, "words": words, "where": planted.where}
        attributes = {**observation.attributes, SAID: {"words": words}, PLANTED: told}
        return msgspec.structs.replace(observation, attributes=attributes)

    async def _adapted(
        self, live: Live, observation: Observation, proposing: Proposing, order: Order, task: str
    ) -> Observation:
        before = [found for node in live.path.walk if (found := said(node)) is not None]
        if (proposing.once and before) or sum("silent" in each for each in before) > 1:
            return observation
        try:
            proposal = await proposing.propose(live, self._attack, order, task)
        except NotWritten as error:
            return _marked(observation, {"silent": str(error)})
        return self._placed(observation, msgspec.to_builtins(proposal))

    def _placed(self, observation: Observation, told: dict[str, Any]) -> Observation:
        shown = observation
        if self._attack.surface.lists and observation.tools is None and self._live is not None:
            shown = msgspec.structs.replace(observation, tools=self._live.path.tools)
        if self._attack.framing.drawn:
            return self._pictured(shown, told)
        placed = self._attack.surface.place(shown, told["words"])
        if placed is None:
            self._why = f"nothing to write into on the surface {self._attack.surface.name}"
        return observation if placed is None else _marked(placed, told)

    def _pictured(self, observation: Observation, told: dict[str, Any]) -> Observation:
        try:
            part, data = drawn(told["words"])
        except (MissingError, ValueError) as error:
            self._why = str(error)
            return observation
        placed = pictured(self._attack.surface, observation, part, data)
        if isinstance(placed, str):
            self._why = placed
            return observation
        return _marked(placed, {**told, PICTURE: part.hash})

    def _ordered(self, live: Live, tools: tuple[Tool, ...]) -> Order | None:
        """What is wanted here, made once; None where the goal has no place in this environment."""
        self._live = live
        if self._order is not None or (self._why and live.path.turns):
            return self._order
        seed = digest(str(live.config.seed), live.slot.task.id, self._attack.name)
        order = self._attack.goal.order(Offer(tools, f"ref-{seed[:10]}", Random(seed), self._wanted))
        if isinstance(order, str):
            self._why = order
        else:
            self._order = order
        return self._order

    def _parts(self, order: Order) -> tuple[str, ...]:
        if self._text:
            return (self._text.replace("{canary}", order.effect.canary),)
        return self._attack.framing.words(order)

    def _speaks(self, node: Node) -> bool:
        return "words" in (said(node) or {})

    def _early(self) -> str:
        if self._live is not None and not self._live.path.walk:
            return "the agent broke before its first turn"
        if self._live is not None and any(self._speaks(node) for node in self._live.path.walk):
            return "the episode ended before the attacker came to its wish"
        return f"the episode ended before turn {self._at} had a result"

    def _silent(self) -> str:
        walk = self._live.path.walk if self._live is not None else []
        return next((str(found["silent"]) for node in walk if "silent" in (found := said(node) or {})), "")

    def _verdict(self) -> Verdict | None:
        if self._live is None or self._order is None:
            return None
        order, path = self._order, self._live.path
        pictures = tuple(found[PICTURE] for node in path.walk if PICTURE in (found := said(node) or {}))
        if self._attack.framing.drawn:
            launch = Launch(parts=(), effect=order.effect, alone=self._proposing is not None, pictures=pictures)
        elif self._proposing is None:
            launch = Launch(
                parts=() if self._quiet else self._parts(order),
                effect=order.effect,
                secret=bool(order.plant),
                planted=self._attack.surface.moment == "state",
            )
        else:
            asked = [(said(node) or {})["words"] for node in path.walk if asks(node)]
            launch = Launch(parts=tuple(asked), effect=order.effect, secret=bool(order.plant), alone=True)
        success = self._judged.success if self._judged is not None else None
        return verdict(launch, path.walk, path.summaries, success=success)


def _marked(observation: Observation, told: dict[str, Any]) -> Observation:
    return msgspec.structs.replace(observation, attributes={**observation.attributes, SAID: told})
