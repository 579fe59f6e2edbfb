"""An explorer that any model plays: it is told what to look at, and takes its turns like any agent."""

from __future__ import annotations

from pydantic import Field

from silva.errors import UsageError
from silva.loops.roles.asking import Asks
from silva.loops.roles.explorer import Context
from silva.loops.roles.registry import Implementation
from silva.loops.roles.trying import NAME
from silva.rollout.acted import prompt_digest
from silva.rollout.bounds import Price
from silva.rollout.config import RolloutConfig
from silva.tree import Task

TEMPLATE = """\
From here on, explore. You need not finish what was asked of you; find out what else can be done here.
{focus}{evidence}
Do not repeat what you see above. With every step try something whose result you do not know yet, then build on what \
you have learnt: reach places, states and results that nobody has reached in this conversation. Go on calling tools, \
one step at a time, and do not stop to explain."""

_LONGEST = 2000


class EndpointExplorerOptions(Asks):
    """`temperature` the model samples at; `valid`: whether an action that the environment does not list is replaced by
    one that it does (off: a model's mistakes are its own)."""

    temperature: float | None = Field(default=1.0, ge=0)
    max_tokens: int = Field(default=512, ge=16)
    valid: bool = False


class EndpointExplorer(Implementation):
    """A model of one's choice explores in the policy's place."""

    role, name, summary = "explorer", "endpoint", "a model of your choice, told what to look at"
    Options = EndpointExplorerOptions
    prompt = prompt_digest(TEMPLATE)

    @property
    def model(self) -> str:
        """Whom it asks."""
        return str(self.options.model)

    def playing(self, base: RolloutConfig) -> RolloutConfig:
        said: EndpointExplorerOptions = self.options
        if not said.model:
            raise UsageError("explorer endpoint: name a model to ask: model=http://HOST:PORT/v1#NAME, or local")
        sampling = base.sampling.model_copy(update={"temperature": said.temperature, "max_tokens": said.max_tokens})
        stage: dict[str, object] = {"by": self.name, "valid": said.valid, "model": said.model, "prompt": self.prompt}
        price = Price(input=said.input_price, output=said.output_price)
        return base.model_copy(
            update={
                "policy": "model",
                "model": said.model,
                "sampling": sampling,
                "stages": {**base.stages, NAME: stage},
                "deadlines": base.deadlines.model_copy(update={"model": said.deadline}),
                "budget": base.budget.model_copy(update={"price": price}),
            }
        )

    def words(self, context: Context, task: Task) -> str:
        focus = f"Look above all at this: {context.focus[:_LONGEST]}\n" if context.focus else ""
        evidence = f"What was seen before: {context.evidence[:_LONGEST]}\n" if context.evidence else ""
        return TEMPLATE.replace("{focus}", focus).replace("{evidence}", evidence)
