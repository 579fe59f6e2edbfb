"""What bounds a rollout: seconds, turns, tokens, and dollars at a price."""

from __future__ import annotations

from pydantic import Field, model_validator

from silva.rollout.section import Section


class Deadlines(Section):
    """Seconds a model call (over its retries), an environment call and a whole episode may take."""

    model: float = Field(default=120.0, gt=0)
    environment: float = Field(default=60.0, gt=0)
    episode: float = Field(default=1800.0, gt=0)


class Price(Section):
    """US dollars that a million tokens of the run's models cost: of what they read, and of what they say."""

    input: float = Field(default=0.0, ge=0)
    output: float = Field(default=0.0, ge=0)

    @property
    def endpoint(self) -> dict[str, object]:
        """The same as fields of an endpoint."""
        return {"input_price": self.input, "output_price": self.output}


class Budget(Section):
    """Limits. `turns` and `episode_tokens` hold for one episode (turns: default is the environment's own);
    `tokens`, `seconds` and `usd` for the whole run, resumed parts counted in. `usd` needs a `price`: nobody else says
    what a model costs, and a bound that nothing is counted against is none."""

    turns: int | None = Field(default=None, ge=1)
    episode_tokens: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    seconds: float | None = Field(default=None, gt=0)
    usd: float | None = Field(default=None, gt=0)
    price: Price | None = None

    @model_validator(mode="after")
    def _counted(self) -> Budget:
        if self.usd is not None and self.price is None:
            raise ValueError(
                "usd: what the model costs is not known; say the dollars for a million tokens: "
                "budget.price.input=3 budget.price.output=15"
            )
        return self
